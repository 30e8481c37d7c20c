/** The output of a job, as its agent hands it over before it removes the container. */
import { Readable } from 'node:stream'
import { pack } from 'tar-stream'
import { OUTPUT_PATH } from '../../src/contract/agent.ts'
import type { JoinedHost } from './joined-host.ts'

export async function archiveOf(files: Readonly<Record<string, string>>): Promise<Buffer> {
  const archive = pack()
  for (const [path, content] of Object.entries(files))
    archive.entry({ name: `output/${path}`, mtime: new Date(0) }, content)
  archive.finalize()
  const chunks: Buffer[] = []
  for await (const chunk of archive as AsyncIterable<Buffer>) chunks.push(chunk)
  return Buffer.concat(chunks)
}

/** null: there is none. Returns the status of the answer. */
export async function handOverOutput(
  server: { readonly url: string },
  host: Pick<JoinedHost, 'authorize'>,
  workloadId: string,
  files: Readonly<Record<string, string>> | null,
): Promise<number> {
  const path = `${OUTPUT_PATH}/${workloadId}`
  const body = files === null ? Buffer.alloc(0) : await archiveOf(files)
  const response = await fetch(`${server.url}${path}`, {
    method: 'PUT',
    headers: { authorization: host.authorize(path), 'content-type': 'application/x-tar' },
    body: Readable.toWeb(Readable.from([body], { objectMode: false })) as unknown as ReadableStream,
    duplex: 'half',
  })
  return response.status
}
