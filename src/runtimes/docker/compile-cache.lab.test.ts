/** Which containers get what an engine compiled before them, on a real daemon. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startDockerLab, whyNoDockerLab, type DockerLab } from '../../../test/lab/docker-lab.ts'
import { forever, programOf, runtimeOn, workloadOf, type DockerRuntime } from '../../../test/harness/docker-runtime.ts'
import { waitFor } from '../../../test/harness/wait.ts'
import type { Program, Workload } from '../../contract/agent.ts'
import { needs } from '../../../test/needs.ts'

needs('docker')

const why = whyNoDockerLab()
const leftOut = why === undefined ? '' : ` (left out: ${why})`
const silent = (): void => {}
const BUDGET_BYTES = 3_000_000
const ROOT = '/var/cache/berth/vllm_cache_root'

describe.skipIf(why !== undefined)(`promise 25: a compile cache${leftOut}`, () => {
  let lab: DockerLab
  let runtime: DockerRuntime
  const gpus = ['NVIDIA H200', 'NVIDIA L4'].map((name, index) => ({
    index,
    uuid: `GPU-sim-${index}`,
    name,
    simulated: true,
  }))

  beforeAll(async () => {
    lab = await startDockerLab({ name: 'cache' })
    runtime = runtimeOn(lab, { gpus, compileCacheBytes: BUDGET_BYTES })
  })
  afterAll(async () => {
    await runtime.close()
    await lab.close()
  })

  const shell = (id: string, script: string): Promise<string> => lab.docker('exec', `berth-${id}`, 'sh', '-c', script)
  const caches = async (): Promise<string[]> =>
    (await lab.docker('volume', 'ls', '--quiet', '--filter', 'label=berth.compile-cache')).split('\n').filter(Boolean)

  interface Place {
    readonly gpu?: number
    readonly image?: DockerLab['images']['busybox']
  }
  const replica = (
    id: string,
    changes: Partial<Program['compileCache']> = {},
    { gpu = 0, image }: Place = {},
  ): Workload => {
    const compileCache = { owner: 'ada', model: 'qwen3-8b', variables: ['VLLM_CACHE_ROOT'], ...changes }
    const program = programOf({ compileCache })
    return {
      ...workloadOf(id, { program, ...(image === undefined ? {} : { image }) }),
      node: { index: 0, gpuIndexes: [gpu], peers: [] },
    }
  }

  /** Starts it, and returns what an earlier engine left in the folder of this one. */
  async function start(workload: Workload): Promise<string> {
    await runtime.start(workload, silent, forever)
    return shell(workload.id, 'mkdir -p $VLLM_CACHE_ROOT && cat $VLLM_CACHE_ROOT/kernels 2>/dev/null || echo nothing')
  }
  const stop = (id: string): Promise<void> => runtime.stop(id, forever)

  test('has what the engine of the same account, image, GPUs and model compiled, and nothing of any other', async () => {
    expect(await start(replica('first'))).toBe('nothing\n')
    expect(await shell('first', 'echo $VLLM_CACHE_ROOT; echo compiled > $VLLM_CACHE_ROOT/kernels')).toBe(`${ROOT}\n`)
    await stop('first')
    expect(await start(replica('second'))).toBe('compiled\n')
    await stop('second')

    const differing: Array<[string, Workload]> = [
      ['another account', replica('account', { owner: 'eve' })],
      ['another model', replica('model', { model: 'qwen3-32b' })],
      ['another GPU', replica('gpu', {}, { gpu: 1 })],
      ['another image', replica('image', {}, { image: lab.images.sftp })],
    ]
    for (const [difference, workload] of differing) {
      expect([difference, await start(workload)]).toEqual([difference, 'nothing\n'])
      await shell(workload.id, 'echo theirs > $VLLM_CACHE_ROOT/kernels')
      await stop(workload.id)
    }
    expect(await start(replica('third'))).toBe('compiled\n')
    await stop('third')
  })

  test('is never shared by two containers at a time', async () => {
    expect(await start(replica('one'))).toBe('compiled\n')
    expect(await start(replica('two'))).toBe('nothing\n')
    for (const id of ['one', 'two']) await stop(id)
  })

  test('is not there without an account, nor for an engine that could not write to it', async () => {
    const compileCache = { model: 'qwen3-8b', variables: ['VLLM_CACHE_ROOT'] }
    const layers = [lab.registry.busyboxLayer]
    const image = await lab.registry.push('lab/user', '1', layers, ['/bin/sleep', '1000'], { User: '1000:1000' })
    const without = [workloadOf('ownerless', { program: programOf({ compileCache }) }), replica('user', {}, { image })]
    for (const workload of without) {
      await runtime.start(workload, silent, forever)
      expect(await shell(workload.id, 'echo "<$VLLM_CACHE_ROOT>"; ls /var/cache/berth 2>&1 || true')).toMatch(
        /^<>\n.*No such file/,
      )
      await stop(workload.id)
    }
  })

  test('is removed when those that nobody uses exceed the budget of the host, and counts as disk of its container', async () => {
    const before = await caches()
    await start(replica('large', { model: 'large' }))
    await shell('large', 'head -c 5000000 /dev/zero > $VLLM_CACHE_ROOT/kernels')
    const [own = ''] = (await caches()).filter((name) => !before.includes(name))
    expect(own).toMatch(/^berth-compile-cache-[0-9a-f]{32}-0$/)
    // It is in use, so the end of another container does not remove it.
    await start(replica('small', { model: 'small' }))
    await stop('small')
    expect(await caches()).toContain(own)
    await stop('large')
    await waitFor('its removal', async () => !(await caches()).includes(own))
  })
})
