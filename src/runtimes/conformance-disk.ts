/**
 * The rule for the disks of a runtime that can turn workloads off: whatever the runtime does by itself, and whenever its
 * agent is killed, a workload stays listed, never as failed, and starts from the same disk. A failed workload would be
 * lost with its disk, because the server gives it up.
 */
import { expect, it } from 'vitest'
import type { Workload } from '../contract/agent.ts'
import type { WorkloadStatus, Runtime } from './runtime.ts'

export type PoweredRuntime = Runtime & Required<Pick<Runtime, 'halt' | 'reboot'>>

export interface DiskBench {
  runtime(): PoweredRuntime
  /** Ends the runtime as a killed agent does, and opens another one on the same host. */
  killAgent(): Promise<PoweredRuntime>
  workload(id: string): Workload
  /** The same workload with other GPUs of its host. */
  withOtherGpus(workload: Workload): Workload
  /** Runs a shell command in the workload. */
  inside(id: string, command: string): Promise<string>
  readonly timeoutMs: number
}

const never = new AbortController().signal
const silent = (): void => {}

export function diskTests(bench: DiskBench): void {
  const { timeoutMs: timeout } = bench
  const make = async (id: string): Promise<Workload> => {
    const workload = bench.workload(id)
    await bench.runtime().start(workload, silent, never)
    await bench.inside(id, 'echo mine >/root/file; sync')
    return { ...workload, started: true }
  }

  it(
    'a workload is never listed as failed or left out while its runtime works on it (issue 31, A)',
    { timeout },
    async () => {
      const workload = await make('steps')
      const moved = bench.withOtherGpus(workload)
      const runtime = bench.runtime()
      const states = [
        ...(await listDuring(runtime, 'steps', runtime.halt('steps', never))),
        ...(await listDuring(runtime, 'steps', runtime.start(moved, silent, never))),
        ...(await listDuring(runtime, 'steps', runtime.reboot({ ...moved, reboots: 1 }, never))),
      ]
      expect(new Set(states)).not.toContain('failed')
      expect(new Set(states)).not.toContain('missing')
      await runtime.start({ ...moved, reboots: 1 }, silent, never)
      // A guest is up a while after its reboot.
      const read = (): Promise<string> => bench.inside('steps', 'cat /root/file').catch(() => '')
      await expect.poll(read, { timeout }).toBe('mine\n')
      await runtime.stop('steps', never)
    },
  )

  it('an agent killed during a halt or a start keeps the disk (issue 31, A)', { timeout }, async () => {
    const workload = await make('killed')
    const moved = bench.withOtherGpus(workload)
    const survives = async (work: (runtime: PoweredRuntime, signal: AbortSignal) => Promise<void>): Promise<void> => {
      const dying = new AbortController()
      const cut = work(bench.runtime(), dying.signal).catch(silent)
      await bench.runtime().list(never)
      dying.abort()
      const next = await bench.killAgent()
      await cut
      expect(['starting', 'running', 'ended']).toContain(await stateOf(next, 'killed'))
    }
    await survives((runtime, signal) => runtime.halt('killed', signal))
    await bench.runtime().halt('killed', never)
    expect(await stateOf(bench.runtime(), 'killed')).toBe('ended')
    await survives((runtime, signal) => runtime.start(moved, silent, signal))
    await bench.runtime().start(moved, silent, never)
    expect(await bench.inside('killed', 'cat /root/file')).toBe('mine\n')
    await bench.runtime().stop('killed', never)
    expect(await stateOf(bench.runtime(), 'killed')).toBe('missing')
  })
}

type Shown = WorkloadStatus['state'] | 'missing'

export async function stateOf(runtime: Runtime, id: string): Promise<Shown> {
  return (await runtime.list(never)).find((one) => one.id === id)?.state ?? 'missing'
}

/** The states that lists show until the work is done. */
export async function listDuring(runtime: Runtime, id: string, work: Promise<void>): Promise<Shown[]> {
  let isDone = false
  const end = work.finally(() => (isDone = true))
  const states: Shown[] = []
  do states.push(await stateOf(runtime, id))
  while (!isDone)
  await end
  return states
}
