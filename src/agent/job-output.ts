/**
 * Hands the output of a job over to the server before its container is removed. The server says whether it is awaited, so a
 * step that is repeated sends nothing twice; an error lets the removal be tried again.
 */
import { Readable } from 'node:stream'
import { SECOND_MS } from '../base/instant.ts'
import { signalWithin } from '../base/signal-within.ts'
import { OUTPUT_PATH } from '../contract/agent.ts'
import type { Runtime } from '../runtimes/runtime.ts'

const ASK_MS = 20 * SECOND_MS

export interface OutputOptions {
  readonly runtime: Pick<Runtime, 'output'>
  readonly server: string
  /** The host's signature for one path. */
  readonly authorize: (path: string) => string
}

export async function handOverOutput(options: OutputOptions, id: string, signal: AbortSignal): Promise<void> {
  const open = await options.runtime.output?.(id, signal)
  if (open === undefined || !(await isAwaited(options, id, signal))) return
  const archive = await open()
  const at = `${OUTPUT_PATH}/${encodeURIComponent(id)}`
  try {
    const answer = await fetch(`${options.server}${at}`, {
      method: 'PUT',
      headers: { authorization: options.authorize(at), 'content-type': 'application/x-tar' },
      body: Readable.toWeb(archive) as unknown as ReadableStream,
      duplex: 'half',
      signal,
    })
    await answer.arrayBuffer()
    if (!answer.ok) throw new Error(`the server answered ${answer.status} to the output of ${id}`)
  } finally {
    archive.destroy()
  }
}

async function isAwaited({ server, authorize }: OutputOptions, id: string, signal: AbortSignal): Promise<boolean> {
  const at = `${OUTPUT_PATH}/${encodeURIComponent(id)}`
  const answer = await fetch(`${server}${at}`, {
    headers: { authorization: authorize(at) },
    signal: signalWithin(signal, ASK_MS),
  })
  const text = await answer.text()
  // A server without jobs awaits nothing.
  if (answer.status === 404) return false
  if (!answer.ok) throw new Error(`the server answered ${answer.status} when it was asked about ${id}`)
  return (JSON.parse(text) as { readonly isAwaited?: unknown }).isAwaited === true
}
