/** COPY … FROM STDIN on a connection of pg. */
import pg from 'pg'

/** What pg gives a query when the server is ready for its rows; missing in its types. */
interface CopyConnection {
  sendCopyFromChunk(chunk: Buffer): void
  endCopyFrom(): void
}

/** Runs a COPY on a connection of pg, whose own queries have no source. */
export function runCopy(client: pg.ClientBase, text: string, data: string): Promise<{ rows: [] }> {
  return new Promise((resolve, reject) => {
    const query = new pg.Query(text, undefined, (error: Error | null | undefined) => {
      if (error === null || error === undefined) resolve({ rows: [] })
      else reject(error)
    })
    Object.assign(query, {
      handleCopyInResponse: (connection: CopyConnection) => {
        connection.sendCopyFromChunk(Buffer.from(data))
        connection.endCopyFrom()
      },
    })
    client.query(query)
  })
}
