/** A container that gets other GPUs keeps its disk: with many files, and with its agent or daemon killed at any step. */
import net from 'node:net'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startDockerLab, whyNoDockerLab, type DockerLab } from '../../../test/lab/docker-lab.ts'
import { forever, runtimeOn, workloadOf, type DockerRuntime } from '../../../test/harness/docker-runtime.ts'
import type { Workload } from '../../contract/agent.ts'
import { diskTests, listDuring, stateOf } from '../conformance-disk.ts'
import { DockerClient } from './client.ts'
import { needs } from '../../../test/needs.ts'

needs('docker')

const why = whyNoDockerLab()
const leftOut = why === undefined ? '' : ` (left out: ${why})`
const silent = (): void => {}
const TIMEOUT_MS = Number(process.env['BERTH_TEST_DISK_MS'] ?? 120_000)
/** The first attempt at seeing the daemon remove them; where its disk is quicker than that, the next attempt has four times as many. */
const FILES = Number(process.env['BERTH_TEST_DISK_FILES'] ?? 20_000)
const MAX_FILES = 16 * FILES
const MEGABYTES = Number(process.env['BERTH_TEST_DISK_MB'] ?? 64)
/** More than the requests that change something during a move. */
const MAX_STEPS = 20

describe.skipIf(why !== undefined)(`a container that gets other GPUs${leftOut}`, () => {
  let lab: DockerLab
  let runtime: DockerRuntime
  let client: DockerClient

  beforeAll(async () => {
    lab = await startDockerLab({ name: 'move' })
    runtime = runtimeOn(lab)
    client = new DockerClient(lab.socketPath)
  })
  afterAll(async () => {
    await client.close()
    await runtime.close()
    await lab.close()
  })

  const inside = (id: string, script: string): Promise<string> => lab.docker('exec', `berth-${id}`, 'sh', '-c', script)
  const withOtherGpus = (workload: Workload): Workload => ({
    ...workload,
    started: true,
    node: { ...workload.node, gpuIndexes: [1] },
  })
  const diskImages = async (): Promise<string> => (await lab.docker('images', '-q', 'berth-disk')).trim()

  diskTests({
    runtime: () => runtime,
    killAgent: async () => {
      await runtime.close()
      runtime = runtimeOn(lab)
      return runtime
    },
    workload: workloadOf,
    withOtherGpus,
    inside,
    timeoutMs: TIMEOUT_MS,
  })

  describe('with many files', () => {
    const id = 'many'
    const resources = { cpuModel: 'any', cpuCount: 1, ramGb: 0.2, storageGb: 64 }
    const digest = (): Promise<string> =>
      inside(id, 'cat /root/file; ls /root/many-* | md5sum; cat /root/large-* | md5sum')
    let before: string
    let workload: Workload
    let moves = 0
    let files = FILES

    beforeAll(() => runtime.start(workloadOf(id, { resources }), silent, forever))
    afterAll(() => runtime.stop(id, forever), TIMEOUT_MS)

    /** Each move leaves the files in an image, and only what is written since is removed with the container. */
    const prepareMove = async (): Promise<void> => {
      await inside(
        id,
        `mkdir /root/many-${moves}; cd /root/many-${moves}; seq 1 ${files} | xargs -n 500 touch; echo mine >/root/file
         dd if=/dev/urandom of=/root/large-${moves} bs=1M count=${MEGABYTES} 2>/dev/null; sync`,
      )
      before = await digest()
      await runtime.halt(id, forever)
      moves += 1
      workload = workloadOf(id, { resources })
      workload = { ...workload, started: true, node: { ...workload.node, gpuIndexes: [moves % 2] } }
    }

    const isBeingRemoved = async (): Promise<boolean> =>
      (await client.containers(`berth.id=${id}`)).some(({ State }) => State === 'removing' || State === 'dead')

    /** Asks without a pause, because a removal takes a fraction of a second. A move that ends unseen is repeated with more files. */
    async function moveUntilRemoval(signal: AbortSignal): Promise<[Promise<void>]> {
      for (; files <= MAX_FILES; files *= 4) {
        await prepareMove()
        let isMoving = true
        const move = runtime.start(workload, silent, signal).finally(() => (isMoving = false))
        move.catch(silent) // Whoever awaits it sees the error; until then it may fail unobserved.
        while (isMoving) if (await isBeingRemoved()) return [move]
        await move
      }
      throw new Error(`the daemon was not seen removing a container with ${MAX_FILES} files`)
    }

    test('is not listed as failed while the daemon removes it (issue 31, A)', { timeout: TIMEOUT_MS }, async () => {
      const [move] = await moveUntilRemoval(forever)
      expect(await stateOf(runtime, id)).not.toBe('failed')
      const states = await listDuring(runtime, id, move)
      expect(new Set(states)).not.toContain('failed')
      expect(new Set(states)).not.toContain('missing')
      expect(await digest()).toBe(before)
    })

    test(
      'an agent killed meanwhile does not take what is left for its disk (issue 31, A)',
      { timeout: TIMEOUT_MS },
      async () => {
        const dying = new AbortController()
        const [move] = await moveUntilRemoval(dying.signal)
        dying.abort()
        await move.catch(silent)
        await runtime.close()
        runtime = runtimeOn(lab)
        expect(['starting', 'ended']).toContain(await stateOf(runtime, id))
        await runtime.start(workload, silent, forever)
        expect(await digest()).toBe(before)
      },
    )

    test('a daemon killed meanwhile does not either (issue 31, A)', { timeout: TIMEOUT_MS }, async () => {
      const [move] = await moveUntilRemoval(forever)
      await lab.cutPower()
      await move.catch(silent)
      await lab.startDaemon()
      expect(['starting', 'ended']).toContain(await stateOf(runtime, id))
      await runtime.start(workload, silent, forever)
      expect(await digest()).toBe(before)
    })
  })

  test.each(['before', 'after'] as const)(
    'keeps its disk when the agent is killed %s each request to the daemon (issue 31, A)',
    { timeout: TIMEOUT_MS },
    async (when) => {
      const id = `cut-${when}`
      let workload = workloadOf(id)
      await runtime.start(workload, silent, forever)
      await inside(id, 'echo 0 >/root/file')
      let steps = 0
      for (let step = 1; step <= MAX_STEPS; step += 1) {
        await runtime.halt(id, forever)
        workload = { ...workload, started: true, node: { ...workload.node, gpuIndexes: [step % 2] } }
        const line = await cutLine(lab, step, when)
        const dying = runtimeOn(lab, { socketPath: line.socketPath })
        await dying.start(workload, silent, forever).catch(silent)
        const isCut = line.isCut()
        await dying.close()
        await line.close()
        expect([step, await stateOf(runtime, id)]).toEqual([step, expect.stringMatching(/starting|ended|running/)])
        await runtime.start(workload, silent, forever)
        expect([step, await inside(id, 'cat /root/file')]).toEqual([step, `${step - 1}\n`])
        await inside(id, `echo ${step} >/root/file`)
        if (!isCut) break
        steps += 1
      }
      // At least the image, the removal, the new container and its start.
      expect(steps).toBeGreaterThanOrEqual(4)
      expect(steps).toBeLessThan(MAX_STEPS)
      await runtime.stop(id, forever)
      expect(await diskImages()).toBe('')
    },
  )

  test('a move that was stopped after its container was made starts with the GPUs of the next start (issue 31, A)', async () => {
    const id = 'twice'
    const workload = workloadOf(id)
    await runtime.start(workload, silent, forever)
    await inside(id, 'echo mine >/root/file')
    await runtime.halt(id, forever)
    const line = await cutLine(lab, 1, 'before', /POST \S+\/start/)
    const dying = runtimeOn(lab, { socketPath: line.socketPath })
    await dying.start(withOtherGpus(workload), silent, forever).catch(silent)
    await dying.close()
    await line.close()
    await runtime.halt(id, forever)
    expect(await stateOf(runtime, id)).toBe('ended')
    await runtime.start({ ...workload, started: true }, silent, forever)
    expect(await inside(id, 'cat /root/file; echo $BERTH_GPUS')).toBe('mine\n0\n')
    await runtime.stop(id, forever)
  })
})

/**
 * A connection to the daemon that breaks for good `before` or `after` its nth request that changes something: the daemon
 * has not got it, or has carried it out.
 */
async function cutLine(
  lab: DockerLab,
  nth: number,
  when: 'before' | 'after',
  kind = /^(POST|PUT|DELETE) /,
): Promise<{ socketPath: string; isCut(): boolean; close(): Promise<void> }> {
  const socketPath = path.join(lab.folder, `cut-${when}-${nth}.sock`)
  const sockets = new Set<net.Socket>()
  let isCut = false
  let requests = 0
  const cut = (): void => {
    isCut = true
    for (const socket of sockets) socket.destroy()
  }
  const server = net.createServer((socket) => {
    if (isCut) return void socket.destroy()
    const daemon = net.connect(lab.socketPath)
    for (const one of [socket, daemon]) sockets.add(one.on('error', () => {}))
    let isLast = false
    socket.on('data', (data) => {
      if (kind.test(data.toString('latin1')) && ++requests === nth) {
        if (when === 'before') return cut()
        isLast = true
      }
      daemon.write(data)
    })
    daemon.on('data', (data) => (isLast ? cut() : socket.write(data)))
    daemon.once('close', () => socket.destroy())
    socket.once('close', () => daemon.destroy())
  })
  await new Promise<void>((resolve) => server.listen(socketPath, resolve))
  return {
    socketPath,
    isCut: () => isCut,
    close: () =>
      new Promise((resolve) => {
        for (const socket of sockets) socket.destroy()
        server.close(() => resolve())
      }),
  }
}
