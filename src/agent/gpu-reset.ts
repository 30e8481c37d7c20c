/**
 * Resets a GPU and tests it. The driver refuses the reset while any program uses the GPU. The test is that the driver
 * lists it without a problem, and NVIDIA's own short diagnosis where `dcgmi` is installed.
 */
import { execFile } from 'node:child_process'
import type { GpuListing } from './gpu-listing.ts'

const RESET_MS = 120_000
const QUERY_MS = 30_000
const DIAGNOSIS_MS = 600_000
const MAX_OUTPUT_BYTES = 1_048_576

export interface GpuResetOptions {
  /** `nvidia-smi` or its path. */
  readonly program: string
  /** `dcgmi` or its path. */
  readonly diagnosis?: string
  readonly list: (signal?: AbortSignal) => Promise<GpuListing>
}

/** Resets a GPU. Returns undefined if it works again; otherwise a phrase that says why not. */
export async function resetGpu(
  uuid: string,
  { program, diagnosis = 'dcgmi', list }: GpuResetOptions,
  signal: AbortSignal,
): Promise<string | undefined> {
  const reset = await runProgram(program, ['--gpu-reset', '-i', uuid], RESET_MS, signal)
  if (reset.code !== 0) return `its reset failed: ${reset.text}`
  const { gpus, toRecover } = await list(signal)
  const problems = gpus.find(({ gpu }) => gpu.uuid === uuid)?.problems ?? ['the driver does not list it']
  if (problems.length > 0 || toRecover?.has(uuid) === true) return `its reset did not help: ${problems.join('; ')}`
  const { text: index } = await runProgram(
    program,
    ['--query-gpu=index', '--format=csv,noheader', '-i', uuid],
    QUERY_MS,
    signal,
  )
  if (!/^\d{1,3}$/.test(index)) return 'the driver does not say its number after the reset'
  const test = await runProgram(diagnosis, ['diag', '-r', '1', '-i', index], DIAGNOSIS_MS, signal)
  if (test.code === 'ENOENT' || test.code === 0) return undefined
  return `NVIDIA's diagnosis failed after its reset: ${test.text}`
}

/** The text is the first line of the output. */
function runProgram(
  program: string,
  args: readonly string[],
  timeout: number,
  signal: AbortSignal,
): Promise<{ readonly code: string | number; readonly text: string }> {
  const options = { timeout, killSignal: 'SIGKILL', maxBuffer: MAX_OUTPUT_BYTES, encoding: 'utf8', signal } as const
  return new Promise((resolve) => {
    execFile(program, args, options, (error, output) => {
      const text = output.trim().split('\n')[0]?.slice(0, 200) ?? ''
      if (error === null) return resolve({ code: 0, text })
      const code = error.code ?? 'killed'
      const reason = error.killed === true ? `no answer within ${timeout / 1_000} s` : `exit code ${code}`
      resolve({ code, text: text === '' ? reason : text })
    })
  })
}
