/** What the programs of an interruptible container are told of their end, and when they are killed, on a real daemon. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startDockerLab, whyNoDockerLab, type DockerLab } from '../../../test/lab/docker-lab.ts'
import { forever, programOf, runtimeOn, workloadOf, type DockerRuntime } from '../../../test/harness/docker-runtime.ts'
import { waitFor } from '../../../test/harness/wait.ts'
import { systemClock } from '../../base/instant.ts'
import { LAST_WORDS_MS } from '../../domain/interruption.ts'
import { needs } from '../../../test/needs.ts'

needs('docker')

const why = whyNoDockerLab()
const leftOut = why === undefined ? '' : ` (left out: ${why})`
const silent = (): void => {}

/**
 * It notes the signal and runs on, as a program does that needs longer than it has. SIGHUP is the STOPSIGNAL of the
 * images of the lab.
 */
const DEAF = 'echo ready > /begun; trap "date +%s > /told" HUP; while true; do sleep 0.1; done'

describe.skipIf(why !== undefined)(`interruptible containers${leftOut}`, () => {
  let lab: DockerLab
  let runtime: DockerRuntime

  beforeAll(async () => {
    lab = await startDockerLab({ name: 'notice' })
    // The grace is that of hosts.
    runtime = runtimeOn(lab, { stopGraceS: LAST_WORDS_MS / 1_000 })
  })
  afterAll(async () => {
    await runtime.close()
    await lab.close()
  })

  const shell = (id: string, script: string): Promise<string> => lab.docker('exec', `berth-${id}`, 'sh', '-c', script)
  const listed = async (id: string) => (await runtime.list(forever)).find((one) => one.id === id)

  test('promise 36: see the time in a file, get the stop signal, and are killed ten seconds later and no sooner', async () => {
    const program = programOf({ command: ['sh', '-c', DEAF] })
    const workload = workloadOf('deaf', { interruptible: true, program })
    await runtime.start(workload, silent, forever)
    await waitFor('its program', async () => (await shell('deaf', 'cat /begun || true')).includes('ready'))
    expect(await shell('deaf', 'ls /run/berth')).toBe('')
    const endsAt = Date.parse('2026-11-18T20:15:00.000Z')
    await runtime.announceEnd({ ...workload, endsAt }, forever)
    expect(await shell('deaf', 'cat /run/berth/interruption')).toBe('2026-11-18T20:15:00.000Z\n')
    expect(await listed('deaf')).toMatchObject({ state: 'running', endsAt })
    // Any user reads it, and nobody in the container writes it.
    expect(await shell('deaf', 'ls -l /run/berth/interruption')).toMatch(/^-rw-r--r--/)
    expect(await shell('deaf', 'rm /run/berth/interruption 2>&1 || true')).toContain('Read-only')

    const before = systemClock.now()
    await runtime.halt('deaf', forever)
    const [container] = JSON.parse(await lab.docker('inspect', 'berth-deaf')) as Array<{
      State: { FinishedAt: string; ExitCode: number }
    }>
    expect(container?.State.ExitCode).toBe(137)
    expect(Date.parse(container?.State.FinishedAt ?? '') - before).toBeGreaterThanOrEqual(LAST_WORDS_MS)

    // The next run knows nothing of that interruption.
    await runtime.start({ ...workload, started: true }, silent, forever)
    await waitFor('its signal of the run before', async () => /^\d+$/m.test(await shell('deaf', 'cat /told || true')))
    expect(await shell('deaf', 'ls /run/berth')).toBe('')
    expect((await listed('deaf'))?.endsAt).toBeUndefined()
    await runtime.stop('deaf', forever)
  })

  test('containers that cannot be interrupted see no such folder', async () => {
    await runtime.start(workloadOf('plain'), silent, forever)
    expect(await shell('plain', 'ls /run/berth 2>&1 || true')).toContain('No such file')
    await runtime.stop('plain', forever)
  })
})
