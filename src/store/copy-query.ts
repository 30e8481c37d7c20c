/** COPY … FROM STDIN on a connection of pg. */
import { setImmediate } from 'node:timers/promises'
import pg from 'pg'

/** Rows that are encoded between two turns of the event loop: thousands at once would delay the answers of others. */
const ROWS_PER_TURN = 256

/** What pg gives a query when the server is ready for its rows; missing in its types. */
interface CopyConnection {
  sendCopyFromChunk(chunk: Buffer): void
  endCopyFrom(): void
}

/** Runs a COPY on a connection of pg, whose own queries have no source. */
export function runCopy(client: pg.ClientBase, text: string, rows: readonly string[]): Promise<{ rows: [] }> {
  return new Promise((resolve, reject) => {
    let hasEnded = false
    const query = new pg.Query(text, undefined, (error: Error | null | undefined) => {
      hasEnded = true
      if (error === null || error === undefined) resolve({ rows: [] })
      else reject(error)
    })
    const send = async (connection: CopyConnection): Promise<void> => {
      for (let at = 0; at < rows.length; at += ROWS_PER_TURN) {
        connection.sendCopyFromChunk(Buffer.from(`${rows.slice(at, at + ROWS_PER_TURN).join('\n')}\n`))
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
