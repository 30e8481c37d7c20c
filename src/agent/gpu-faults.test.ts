/** Which records of the kernel log are faults of a GPU, and how long they last. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { systemClock } from '../base/instant.ts'
import { h200, h200Uuid, openDriverLab, rowWith, tableOf, tableOfMany } from '../../test/harness/nvidia-smi.ts'
import { waitFor } from '../../test/harness/wait.ts'
import { Slowdowns } from './gpu-slowdown.ts'

let lab: Awaited<ReturnType<typeof openDriverLab>>
beforeAll(async () => {
  lab = await openDriverLab()
})
afterAll(() => lab.close())

describe('the kernel log', () => {
  const xid = (code: number, rest = 'x', sequence = code) =>
    `4,${sequence},${sequence}000,-;NVRM: Xid (PCI:0000:00:06): ${code}, ${rest}`
  const problemsAfter = async (...records: readonly string[]) => {
    const { open, log } = await lab.fakeDriver(h200)
    const source = open()
    expect((await source.read()).gpus).toMatchObject([{ problems: [] }])
    await log(...records)
    const [reading] = (await source.read()).gpus
    source.close()
    return reading
  }

  test.each([46, 48, 54, 62, 64, 74, 79, 95, 110, 119, 120, 136, 140, 143, 144, 147, 150, 155, 156, 158])(
    'promise 43: Xid %i is a fault of the GPU, at the time of its record',
    async (code) => {
      const before = systemClock.now()
      const reading = await problemsAfter(xid(code))
      expect(reading?.problems).toEqual([
        expect.stringMatching(new RegExp(`^the driver reported Xid ${code} \\(\\w.*\\)$`)),
      ])
      expect(reading?.fault?.at).toBeGreaterThanOrEqual(before)
      expect(reading?.fault?.at).toBeLessThanOrEqual(systemClock.now())
    },
  )

  test.each([13, 31, 43, 45, 63, 68, 94, 109, 9_999])('promise 44: Xid %i does not withdraw a GPU', async (code) => {
    expect(await problemsAfter(xid(code))).toMatchObject({ problems: [] })
  })

  test('promise 44: a tenant cannot forge a fault', async () => {
    const forged = 'NVRM: Xid (PCI:0000:00:06): 79, x'
    const reading = await problemsAfter(
      // A program wrote it to the log: the kernel marks it with a facility of its own.
      `12,1,1,-;${forged}`,
      // The name of a program is quoted in the message of the driver.
      xid(31, `pid=7, name=${forged}`),
      ` ${forged}`,
      forged,
      xid(145, 'RLW_SRC_TRACK Nonfatal XC0 i0 Link 00'),
    )
    expect(reading).toMatchObject({ problems: [] })
  })

  test('Xid 109 counts while the driver asks for a recovery action', async () => {
    const { open, log, print } = await lab.fakeDriver(h200)
    const source = open()
    await source.read()
    await log(xid(109))
    await print(tableOf(rowWith({ gpu_recovery_action: 'Reset' })))
    expect((await source.read()).gpus[0]?.fault?.message).toBe('the driver reported Xid 109 (context switch timeout)')
    source.close()
  })

  test('a fault is known without the driver, which may hang, and only of the GPU that it names', async () => {
    const { open, log } = await lab.fakeDriver({ ...h200, table: tableOfMany([6, 7]) })
    const source = open()
    await source.read()
    await log('4,1,1000,-;NVRM: Xid (PCI:0000:07:00): 79, GPU has fallen off the bus.')
    const snapshot = source.readFaults?.()
    expect(snapshot?.gpus.map(({ fault }) => fault !== undefined)).toEqual([false, true])
    expect(source.readFaults?.()).toBeUndefined()
    source.close()
  })

  test('a fault outlives a restart of the agent with its time, and ends with the next boot', async () => {
    const { open, log } = await lab.fakeDriver(h200)
    const first = open()
    await first.read()
    await log(xid(79))
    const { fault } = (await first.read()).gpus[0] ?? {}
    first.close()
    const second = open()
    expect((await second.read()).gpus[0]?.fault).toEqual(fault)
    second.close()
    await log(xid(48, 'x', 1))
    const third = open()
    expect((await third.read()).gpus[0]?.fault).toEqual(fault)
    third.close()
    const dir = await lab.fakeDriver(h200)
    dir.folder.writeJson('gpu-faults.json', {
      boot: 'an earlier boot',
      sequence: 900,
      faults: [{ address: '0000:00:06', at: 1, sentence: 'old' }],
    })
    const fresh = dir.open()
    expect((await fresh.read()).gpus[0]?.problems).toEqual([])
    fresh.close()
  })
})

describe('promise 45: a broken GPU', () => {
  const signal = new AbortController().signal
  const broken = '4,1,1000,-;NVRM: Xid (PCI:0000:00:06): 48, x'

  test('is reset once while it is free, and sold when it works', async () => {
    const { open, log, resets } = await lab.fakeDriver(h200)
    const source = open('first boot', 'test "$*" = "diag -r 1 -i 0"')
    await log(broken)
    await source.read()
    source.repair?.(new Set([0]), signal)
    expect(resets()).toEqual([])
    source.repair?.(new Set(), signal)
    await waitFor('the GPU to work', async () => (await source.read()).gpus[0]?.problems.length === 0)
    expect(resets()).toEqual([h200Uuid])
    await log(broken.replace('4,1,', '4,2,'))
    expect((await source.read()).gpus[0]?.fault).toBeDefined()
    source.repair?.(new Set(), signal)
    source.close()
    const restarted = open()
    expect((await restarted.read()).gpus[0]?.fault).toBeDefined()
    restarted.repair?.(new Set(), signal)
    restarted.close()
    expect(resets()).toEqual([h200Uuid])
  })

  test.each([
    ['whose reset is refused', 'exit 0', 'In use by another client', /In use by another client/],
    ['that fails the diagnosis', 'echo Memory test failed; exit 226', undefined, /Memory test failed/],
  ])('%s stays off sale, with the reason', async (_, diagnosis, refusal, reason) => {
    const { open, log, refuseReset } = await lab.fakeDriver(h200)
    if (refusal !== undefined) await refuseReset(refusal)
    const source = open('first boot', diagnosis)
    await log(broken)
    await source.read()
    source.repair?.(new Set(), signal)
    await waitFor('the reason', async () => (await source.read()).notes.some((note) => reason.test(note)))
    expect((await source.read()).gpus[0]?.fault).toBeDefined()
    source.close()
  })

  test('for which the driver still asks for a reset stays off sale', async () => {
    const { open } = await lab.fakeDriver({ ...h200, table: tableOf(rowWith({ gpu_recovery_action: 'Reset' })) })
    const source = open()
    await source.read()
    source.repair?.(new Set(), signal)
    await waitFor('the reason', async () => (await source.read()).notes.some((note) => /did not help/.test(note)))
    expect((await source.read()).gpus).toMatchObject([
      { problems: [/asks for/, /did not help/].map((one) => expect.stringMatching(one)) },
    ])
    source.close()
  })
})

test('promise 43: a GPU that is slowed down in more than six of ten minutes is not offered', () => {
  let minute = 0
  const slowdowns = new Slowdowns(() => minute * 60_000)
  for (; minute < 6; minute += 1) slowdowns.note(['GPU-a'])
  expect(slowdowns.isOften('GPU-a')).toBe(false)
  slowdowns.note(['GPU-a'])
  slowdowns.note(['GPU-a', 'GPU-b'])
  expect([slowdowns.isOften('GPU-a'), slowdowns.isOften('GPU-b')]).toEqual([true, false])
  minute += 5
  expect(slowdowns.isOften('GPU-a')).toBe(false)
})
