/** The table at the top of keeper.ts, line by line, on an in-memory host. */
import { beforeEach, describe, expect, it } from 'vitest'
import type { Desired, Workload } from '../contract/agent.ts'
import { waitFor } from '../../test/harness/wait.ts'
import { Keeper, START_FAILED } from './keeper.ts'
import { CustomerError, NeverStarts, type WorkloadStatus, type Runtime } from './runtime.ts'

const signal = new AbortController().signal

class MemoryHost implements Runtime {
  readonly kind = 'container'
  readonly things = new Map<string, WorkloadStatus>()
  readonly calls: string[] = []
  startOutcome: (workload: Workload, signal: AbortSignal) => Promise<void> = async () => {}
  stopOutcome: () => Promise<void> = async () => {}
  rebootOutcome: () => Promise<void> = async () => {}
  haltOutcome: () => void = () => {}
  away = false

  async list(): Promise<WorkloadStatus[]> {
    if (this.away) throw new Error('the engine is away')
    return [...this.things.values()]
  }
  async start(workload: Workload, progress: (message: string) => void, ended: AbortSignal): Promise<void> {
    this.calls.push(`start ${workload.id}`)
    progress('pulling')
    await this.startOutcome(workload, ended)
    const { id, tag } = workload
    this.things.set(id, { id, tag, state: 'running', sshUser: 'root', disks: [] })
  }
  async stop(id: string): Promise<void> {
    this.calls.push(`stop ${id}`)
    await this.stopOutcome()
    this.things.delete(id)
  }
  async halt(id: string): Promise<void> {
    this.calls.push(`halt ${id}`)
    const thing = this.things.get(id)
    if (thing !== undefined) this.things.set(id, { id, tag: thing.tag, state: 'ended', disks: [] })
    this.haltOutcome()
  }
  async reboot({ id, reboots = 0 }: Workload): Promise<void> {
    this.calls.push(`reboot ${id}`)
    await this.rebootOutcome()
    const thing = this.things.get(id)
    if (thing !== undefined) this.things.set(id, { ...thing, reboots })
  }
  async setDisks(workload: Workload): Promise<void> {
    const thing = this.things.get(workload.id)
    if (thing === undefined) throw new Error('not there')
    this.things.set(workload.id, { ...thing, disks: workload.disks.map((one) => one.volumeId) })
  }
  async announceEnd({ id, endsAt }: Workload): Promise<void> {
    this.calls.push(`announce ${id}`)
    const thing = this.things.get(id)
    if (thing !== undefined) this.things.set(id, { ...thing, ...(endsAt === undefined ? {} : { endsAt }) })
  }
  async open(): Promise<never> {
    throw new Error('not here')
  }
  notes(): string[] {
    return []
  }
}

function workload(id: string, more: Partial<Workload> = {}): Workload {
  return {
    id,
    tag: `berth-t-${id}`,
    want: 'run',
    started: false,
    spec: {
      kind: 'container',
      name: id,
      gpuCount: 1,
      resources: { cpuModel: 'any', cpuCount: 1, ramGb: 1, storageGb: 1 },
      sshKeys: [],
      ports: [],
      image: null,
    },
    node: { index: 0, gpuIndexes: [0], peers: [] },
    disks: [],
    baseImage: null,
    ...more,
  }
}

function want(generation: number, ...workloads: Workload[]): Desired {
  return { type: 'desired', generation, state: 'ready', workloads, volumes: [] }
}

let host: MemoryHost
let keeper: Keeper
let errors: string[]
let nowMs: number

beforeEach(() => {
  host = new MemoryHost()
  errors = []
  nowMs = 0
  keeper = new Keeper({
    runtime: host,
    changed: () => {},
    onError: (what, error) => errors.push(`${what}: ${error instanceof Error ? error.message : String(error)}`),
    now: () => nowMs,
  })
})

const reported = (id: string) => keeper.report()?.workloads.find((one) => one.id === id)
const until = (id: string, state: string) =>
  waitFor(`${id} is ${state}`, async () => {
    await keeper.pass(signal)
    return reported(id)?.state === state && reported(id)
  })

it('a running workload is told once when it will be interrupted', async () => {
  host.things.set('a', { id: 'a', tag: 'berth-t-a', state: 'running', disks: [] })
  keeper.desire(want(2, workload('a', { started: true, endsAt: 1_000 })))
  await waitFor('it to know', async () => {
    await keeper.pass(signal)
    return host.things.get('a')?.endsAt === 1_000
  })
  await keeper.pass(signal)
  expect(reported('a')?.state).toBe('running')
  expect(host.calls).toEqual(['announce a'])
})

describe('a workload that should be off', () => {
  it.each(['running', 'failed'] as const)(
    'is halted when it is %s, counts as running until then, and is kept',
    async (state) => {
      host.things.set('a', { id: 'a', tag: 'berth-t-a', state, disks: [] })
      keeper.desire(want(2, workload('a', { started: true, power: 'off' })))
      await keeper.pass(signal)
      expect(reported('a')?.state).toBe('running')
      await until('a', 'stopped')
      expect(host.calls).toEqual(['halt a'])
      await keeper.pass(signal)
      expect(host.calls).toEqual(['halt a'])
      keeper.desire(want(3, workload('a', { started: true })))
      await until('a', 'running')
      expect(host.calls).toEqual(['halt a', 'start a'])
    },
  )

  it('is stopped without a disk when it is gone, and ends when it should (issue 31, A)', async () => {
    keeper.desire(want(2, workload('a', { started: true, power: 'off' })))
    await keeper.pass(signal)
    expect(reported('a')).toMatchObject({ state: 'stopped', failure: 'vanished' })
    host.things.set('b', { id: 'b', tag: 'berth-t-b', state: 'ended', disks: [] })
    keeper.desire(want(3, workload('b', { started: true, power: 'off', want: 'gone' })))
    await waitFor('b to be gone', async () => {
      await keeper.pass(signal)
      return reported('b') === undefined
    })
    expect(host.calls).toEqual(['stop b'])
  })
})

describe('what the list shows during a task', () => {
  const show = (state: WorkloadStatus['state'] | 'missing') => {
    if (state === 'missing') host.things.delete('a')
    else host.things.set('a', { id: 'a', tag: 'berth-t-a', state, disks: [] })
  }

  it.each(['failed', 'missing'] as const)(
    'is a step of it: %s during a start is starting, and never an end (issue 31, A)',
    async (state) => {
      let finish = (): void => {}
      host.startOutcome = () => new Promise((resolve) => (finish = resolve))
      show('ended')
      keeper.desire(want(2, workload('a', { started: true })))
      await keeper.pass(signal)
      show(state)
      await keeper.pass(signal)
      expect(reported('a')).toMatchObject({ state: 'starting' })
      finish()
      await until('a', 'running')
    },
  )

  it('is a step of it: missing or failed during a reboot is rebooting (issue 31, A)', async () => {
    let finish = (): void => {}
    host.rebootOutcome = () => new Promise((resolve) => (finish = resolve))
    show('running')
    keeper.desire(want(2, workload('a', { started: true, reboots: 1 })))
    await keeper.pass(signal)
    for (const state of ['missing', 'failed', 'ended'] as const) {
      show(state)
      await keeper.pass(signal)
      expect(reported('a')).toMatchObject({ state: 'running', message: 'rebooting' })
      expect(reported('a')?.failure).toBeUndefined()
    }
    show('running')
    finish()
    await waitFor('the reboot', async () => {
      await keeper.pass(signal)
      return reported('a')?.message === undefined
    })
  })

  it('is stopped with its failure when it cannot run and was halted, and is halted once (issue 31, A)', async () => {
    const broken = { id: 'a', tag: 'berth-t-a', state: 'failed', failure: 'unreadable', disks: [] } as const
    host.things.set('a', broken)
    host.haltOutcome = () => void host.things.set('a', broken)
    keeper.desire(want(2, workload('a', { started: true, power: 'off' })))
    await until('a', 'stopped')
    expect(reported('a')).toMatchObject({ failure: 'unreadable' })
    await keeper.pass(signal)
    expect(host.calls).toEqual(['halt a'])
  })
})

describe('a reboot', () => {
  it('is done once for each count, and only of a running workload', async () => {
    host.things.set('a', { id: 'a', tag: 'berth-t-a', state: 'running', disks: [] })
    keeper.desire(want(2, workload('a', { started: true, reboots: 2 })))
    await waitFor('the reboot', async () => {
      await keeper.pass(signal)
      return host.things.get('a')?.reboots === 2
    })
    await keeper.pass(signal)
    expect(host.calls).toEqual(['reboot a'])
    expect(reported('a')?.state).toBe('running')
  })
})

describe('a wanted workload', () => {
  it('is started and reported with its generation', async () => {
    keeper.desire(want(7, workload('a')))
    await keeper.pass(signal)
    expect(keeper.report()).toMatchObject({ generation: 7, workloads: [{ id: 'a', state: 'starting' }] })
    expect(await until('a', 'running')).toEqual({
      id: 'a',
      tag: 'berth-t-a',
      state: 'running',
      sshUser: 'root',
      disks: [],
    })
    expect(host.calls).toEqual(['start a'])
  })

  it('fails when it disappeared after it ran, and is never created again', async () => {
    keeper.desire(want(1, workload('a', { started: true })))
    await keeper.pass(signal)
    expect(reported('a')).toMatchObject({ state: 'failed', failure: 'vanished' })
    expect(host.calls).toEqual([])
  })

  it('is created where it moves to, whose disk is on another host, and never counts as lost there (issue 31, 16)', async () => {
    host.startOutcome = async () => {
      throw new CustomerError('The disk could not be copied.')
    }
    keeper.desire(want(1, workload('a', { started: true, copies: true })))
    await keeper.pass(signal)
    await waitFor('the first attempt', () => host.calls.length > 0)
    await keeper.pass(signal)
    expect(reported('a')).toMatchObject({ state: 'starting' })
    expect(reported('a')?.failure).toBeUndefined()
  })

  it('that failed for good and was removed is created again when it comes back (issue 31, 16)', async () => {
    const moved = workload('a', { started: true, copies: true })
    host.startOutcome = async () => {
      throw new NeverStarts('disk_not_copied', 'The disk could not be copied.')
    }
    keeper.desire(want(1, moved))
    await until('a', 'failed')
    keeper.desire(want(2, { ...moved, want: 'gone' }))
    await keeper.pass(signal)
    await waitFor('it to be gone', () => reported('a') === undefined)
    host.startOutcome = async () => {}
    nowMs += 1_000
    keeper.desire(want(3, moved))
    expect(await until('a', 'running')).toMatchObject({ state: 'running' })
  })

  it('is restarted when it ended unobserved', async () => {
    host.things.set('a', { id: 'a', tag: 'berth-t-a', state: 'ended', disks: [] })
    keeper.desire(want(1, workload('a', { started: true })))
    await until('a', 'running')
    expect(host.calls).toEqual(['start a'])
  })

  it('stays failed when a retry cannot help', async () => {
    host.startOutcome = () => Promise.reject(new NeverStarts('image_not_found', 'There is no such image.'))
    keeper.desire(want(1, workload('a')))
    expect(await until('a', 'failed')).toMatchObject({
      failure: 'image_not_found',
      message: 'There is no such image.',
    })
    await keeper.pass(signal)
    expect(host.calls).toEqual(['start a'])
  })

  it('is retried with growing delays after other errors, and reports the last one', async () => {
    let tries = 0
    host.startOutcome = () => (++tries < 3 ? Promise.reject(new CustomerError('The disk is full.')) : Promise.resolve())
    keeper.desire(want(1, workload('a')))
    await waitFor('the error is reported', async () => {
      await keeper.pass(signal)
      return reported('a')?.message === 'The disk is full.'
    })
    expect(tries).toBe(1)
    await waitFor('the workload runs', async () => {
      nowMs += 1_000
      await keeper.pass(signal)
      return reported('a')?.state === 'running'
    })
    expect(errors).toEqual(['start berth-t-a: The disk is full.', 'start berth-t-a: The disk is full.'])
  })

  it('logs an error of the runtime and reports a sentence without paths', async () => {
    const message = 'error creating overlay mount to /var/lib/docker/overlay2/3f2a: no such file or directory'
    host.startOutcome = () => Promise.reject(new Error(message))
    keeper.desire(want(1, workload('a')))
    await waitFor('the start fails', async () => {
      await keeper.pass(signal)
      return errors.length > 0
    })
    await keeper.pass(signal)
    expect(reported('a')).toMatchObject({ state: 'starting', message: START_FAILED })
    expect(errors).toEqual([`start berth-t-a: ${message}`])
  })

  it('gets and loses disks while it runs', async () => {
    const disk = { volumeId: 'd-1', label: 'data', sizeGb: 1, source: { kind: 'file' as const } }
    keeper.desire(want(1, workload('a', { disks: [disk] })))
    await waitFor('the disk is attached', async () => {
      await keeper.pass(signal)
      return reported('a')?.disks.join() === 'd-1'
    })
    keeper.desire(want(2, workload('a', { started: true })))
    await waitFor('the disk is detached', async () => {
      await keeper.pass(signal)
      return reported('a')?.disks.join() === ''
    })
    expect(reported('a')?.state).toBe('running')
  })
})

describe('an unwanted workload', () => {
  it('is reported as stopping until it is gone', async () => {
    host.things.set('a', { id: 'a', tag: 'berth-t-a', state: 'running', disks: [] })
    let finishStop = (): void => {}
    host.stopOutcome = () => new Promise((resolve) => (finishStop = resolve))
    keeper.desire(want(3, workload('a', { want: 'gone', started: true })))
    await keeper.pass(signal)
    expect(keeper.report()?.workloads).toMatchObject([{ id: 'a', state: 'stopping' }])
    finishStop()
    await waitFor('the workload is gone', async () => {
      await keeper.pass(signal)
      return keeper.report()?.workloads.length === 0
    })
  })

  it('aborts a start in progress', async () => {
    let given = false
    host.startOutcome = (_workload, ended) =>
      new Promise((_resolve, reject) =>
        ended.addEventListener('abort', () => {
          given = true
          reject(new Error('given up'))
        }),
      )
    keeper.desire(want(1, workload('a')))
    await keeper.pass(signal)
    keeper.desire(want(2, workload('a', { want: 'gone' })))
    await waitFor('the workload is gone', async () => {
      await keeper.pass(signal)
      return keeper.report()?.workloads.length === 0
    })
    expect(given).toBe(true)
  })
})

it('reports unknown workloads and leaves them alone', async () => {
  host.things.set('x', { id: 'x', tag: 'berth-other-9', state: 'running', disks: [] })
  keeper.desire(want(1))
  await keeper.pass(signal)
  expect(keeper.report()?.workloads).toMatchObject([{ id: 'x', tag: 'berth-other-9', state: 'running' }])
  expect(host.calls).toEqual([])
})

it('throws when the engine is unreachable, and keeps the last report', async () => {
  keeper.desire(want(1, workload('a')))
  await until('a', 'running')
  host.away = true
  await expect(keeper.pass(signal)).rejects.toThrow('the engine is away')
  expect(reported('a')?.state).toBe('running')
})
