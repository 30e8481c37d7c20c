/** COPY … FROM STDIN on a connection of pg. */
import { setImmediate } from 'node:timers/promises'
import pg from 'pg'

/** A query gets this from pg when the server is ready for its rows; it is missing in the types of pg. */
interface CopyConnection {
  sendCopyFromChunk(chunk: Buffer): void
  endCopyFrom(): void
}

/** Runs a COPY on a connection of pg, whose own queries have no source. */
export function runCopy(client: pg.ClientBase, text: string, pieces: readonly Buffer[]): Promise<{ rows: [] }> {
  return new Promise((resolve, reject) => {
    let hasEnded = false
    const query = new pg.Query(text, undefined, (error: Error | null | undefined) => {
      hasEnded = true
      if (error === null || error === undefined) resolve({ rows: [] })
      else reject(error)
    })
    const send = async (connection: CopyConnection): Promise<void> => {
      for (const piece of pieces) {
        connection.sendCopyFromChunk(piece)
        // All at once would delay the answers of others.
        await setImmediate()
        // The server has refused a row, or is gone.
        if (hasEnded) return
      }
      connection.endCopyFrom()
    }
    Object.assign(query, { handleCopyInResponse: (connection: CopyConnection) => void send(connection) })
    client.query(query)
  })
}
