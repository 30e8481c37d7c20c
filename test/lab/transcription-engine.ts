/** The transcription engine in its own process with its real model, called as the gateway calls it. */
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile } from 'node:fs/promises'
import http from 'node:http'
import os from 'node:os'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { inject } from 'vitest'
import { npmFolder } from '../../scripts/cache-folder.ts'
import { removeFolder } from '../harness/leftover.ts'

const PACKAGE = '@usefulsensors/moonshine-js@0.1.16'
const FOLDER = 'package/dist/model/base/quantized'
const names = ['encoder_model.onnx', 'decoder_model_merged.onnx'] as const

/** The path of each file of the model, by its name. The first run downloads 67 MB from npm. */
export function moonshineFiles(): Readonly<Record<string, string>> {
  const folder = npmFolder('moonshine-js-0.1.16', PACKAGE, (work, archive) => {
    const paths = names.map((name) => `${FOLDER}/${name}`)
    execFileSync('tar', ['xzf', archive, '-C', work, '--strip-components', '5', ...paths])
  })
  return Object.fromEntries(names.map((name) => [name, path.join(folder, name)]))
}

export interface TranscriptionEngine {
  readonly pid: number
  /** Opens a request whose events are read as they come. Ends with the signal. */
  open(sound: Uint8Array, signal?: AbortSignal): Promise<http.IncomingMessage>
  /** The status and the body of a whole answer. */
  transcribe(sound: Uint8Array): Promise<{ readonly status: number; readonly text: string; readonly body: string }>
  get(url: string): Promise<string>
  stop(): Promise<void>
}

export async function startTranscriptionEngine(queue = 8): Promise<TranscriptionEngine> {
  const folder = await mkdtemp(path.join(os.tmpdir(), 'berth-transcription-'))
  const socketPath = path.join(folder, 'engine.sock')
  const start = { model: 'moonshine', files: moonshineFiles(), socketPath, threads: 1, queue }
  const program = path.join(path.dirname(inject('serverBundle')), 'transcription-engine.mjs')
  const child = spawn(process.execPath, [program, JSON.stringify(start)], { stdio: ['pipe', 'pipe', 'inherit'] })
  const ended = once(child, 'exit')
  await new Promise<void>((resolve, reject) => {
    createInterface(child.stdout).on('line', (line) => {
      if ((JSON.parse(line) as { event: string }).event === 'ready') resolve()
    })
    void ended.then(([code]) => reject(new Error(`the engine ended with ${String(code)}`)))
  })
  const send = async (method: string, url: string, body?: Uint8Array, signal?: AbortSignal) => {
    const headers =
      body === undefined ? {} : { 'content-type': 'application/octet-stream', 'content-length': body.length }
    const request = http.request({
      socketPath,
      method,
      path: url,
      headers,
      ...(signal === undefined ? {} : { signal }),
    })
    request.end(body)
    const [response] = (await once(request, 'response')) as [http.IncomingMessage]
    return response
  }
  const textOf = async (response: http.IncomingMessage): Promise<string> =>
    Buffer.concat((await response.toArray()) as Buffer[]).toString()
  const open = (sound: Uint8Array, signal?: AbortSignal): Promise<http.IncomingMessage> =>
    send('POST', '/v1/audio/transcriptions', sound, signal)
  return {
    pid: child.pid ?? 0,
    open,
    transcribe: async (sound) => {
      const response = await open(sound)
      const body = await textOf(response)
      return { status: response.statusCode ?? 0, text: wordsOf(body), body }
    },
    get: async (url) => textOf(await send('GET', url)),
    stop: async () => {
      child.kill('SIGKILL')
      await ended
      await removeFolder(folder)
    },
  }
}

/** The texts of the segments in the result. */
function wordsOf(body: string): string {
  const [, result] = /^data: (\{"type":"result".*\})$/m.exec(body) ?? []
  const { segments } = JSON.parse(result ?? '{"segments":[]}') as { segments: ReadonlyArray<{ text: string }> }
  return segments.map(({ text }) => text).join(' ')
}

/** In megabytes: the most that a process has used. */
export async function peakMemory(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8')
  return Number(/^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1]) / 1_024
}
