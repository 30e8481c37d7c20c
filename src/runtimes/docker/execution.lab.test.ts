/** Programs inside a container: the end and exit code of even the shortest one arrive. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startDockerLab, whyNoDockerLab, type DockerLab } from '../../../test/lab/docker-lab.ts'
import { forever, runtimeOn, workloadOf, type DockerRuntime } from '../../../test/harness/docker-runtime.ts'
import { waitFor } from '../../../test/harness/wait.ts'
import { DockerClient } from './client.ts'
import { readOutput, startExecution, executionStream } from './execution.ts'
import { needs } from '../../../test/needs.ts'

needs('docker')

const why = whyNoDockerLab()
const leftOut = why === undefined ? '' : ` (left out: ${why})`
const RUNS = 200
const RUNS_AT_A_TIME = 8

describe.skipIf(why !== undefined)(`programs in a container${leftOut}`, () => {
  let lab: DockerLab
  let runtime: DockerRuntime
  let client: DockerClient

  beforeAll(async () => {
    lab = await startDockerLab({ name: 'execution' })
    runtime = runtimeOn(lab)
    client = new DockerClient(lab.socketPath)
    await runtime.start(workloadOf('short'), () => {}, forever)
  })
  afterAll(async () => {
    await client.close()
    await runtime.stop('short', forever)
    await runtime.close()
    await lab.close()
  })

  async function exitCodeOf(command: readonly string[]): Promise<unknown> {
    const size = { columns: 80, rows: 24 }
    const terminal = await runtime.open(
      { kind: 'terminal', workloadId: 'short', ...size, command: [...command] },
      forever,
    )
    const codes: unknown[] = []
    terminal.onSignal?.((value) => codes.push(value))
    terminal.stream.resume()
    await waitFor('the end of the stream', () => terminal.stream.readableEnded)
    terminal.stream.destroy()
    expect(codes).toHaveLength(1)
    return codes[0]
  }

  test(`true ends ${RUNS} times of ${RUNS}`, async () => {
    let remaining = RUNS
    const codes: unknown[] = []
    const work = async (): Promise<void> => {
      while (remaining > 0) {
        remaining -= 1
        codes.push(await exitCodeOf(['true']))
      }
    }
    await Promise.all(Array.from({ length: RUNS_AT_A_TIME }, work))
    expect(codes).toEqual(Array.from({ length: RUNS }, () => ({ exitCode: 0 })))
  })

  test.each([0, 3])('exit code %i arrives', async (code) => {
    expect(await exitCodeOf(['sh', '-c', `exit ${code}`])).toEqual({ exitCode: code })
  })

  test('a program whose connection closed early has ended and takes no input', async () => {
    const execution = await startExecution(client, 'berth-short', {
      command: ['sh', '-c', 'exit 3'],
      terminal: { columns: 80, rows: 24 },
    })
    await waitFor('the end of the connection', () => execution.socket.destroyed)
    let code: number | undefined
    const stream = executionStream(execution, (exitCode) => (code = exitCode))
    stream.resume()
    stream.end('typed too late')
    await waitFor('the end of the stream', () => stream.readableEnded && stream.writableFinished)
    expect(code).toBe(3)
    // The way SSH reads it.
    for await (const { data } of readOutput(execution)) throw new Error(`there is ${data.toString()} to read`)
    expect(await execution.exitCode()).toBe(3)
  })
})
