/** One write per event loop turn before any continuation runs, and an ordered replay of unsettled records. */
import * as fs from 'node:fs'
import path from 'node:path'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { inferenceRecord } from '../../../test/harness/ended-request.ts'
import {
  appendTo,
  makeFolder,
  names,
  onlySegment,
  openJournal,
  replay,
  segmentsOf,
  settleUpTo,
  writeRecords,
} from '../../../test/harness/journal.ts'
import { waitFor } from '../../../test/harness/wait.ts'
import type { JournalEntry } from './journal.ts'
import { withChecksum } from './journal-segment.ts'
import { nanoUsdOf } from '../../base/money.ts'

describe('writing', () => {
  test('writes the records of one turn with one call, then runs their continuations in order', async () => {
    const dir = makeFolder()
    const writes: number[] = []
    const { journal } = openJournal(dir, {
      write: (file, bytes, offset) => {
        writes.push(bytes.length)
        return fs.writeSync(file, bytes, offset)
      },
    })
    const seen: string[] = []
    const linesThen: number[] = []
    await new Promise<void>((resolve) => {
      for (const requestId of names(100)) {
        appendTo(journal, inferenceRecord({ requestId }), () => {
          seen.push(requestId)
          linesThen.push(fs.readFileSync(onlySegment(dir), 'utf8').split('\n').length - 1)
          if (seen.length === 100) resolve()
        })
      }
      expect([writes, seen]).toEqual([[], []])
    })
    expect(writes).toHaveLength(1)
    expect(new Set(linesThen)).toEqual(new Set([100]))
    expect(seen).toEqual(names(100))
  })

  test('a continuation that throws does not stop the others', async () => {
    const { journal, reported } = openJournal(makeFolder())
    await new Promise<void>((resolve) => {
      appendTo(journal, inferenceRecord({ requestId: 'bad' }), () => {
        throw new Error('a bug')
      })
      appendTo(journal, inferenceRecord({ requestId: 'good' }), resolve)
    })
    expect(reported.map((one) => one.level)).toEqual(['error'])
  })

  test('lets go of a request once its record is written, not when it is settled', async () => {
    setFlagsFromString('--expose-gc')
    const collect = runInNewContext('gc') as () => void
    const { journal } = openJournal(makeFolder())
    const entries: JournalEntry[] = []
    const requests = await new Promise<Array<WeakRef<object>>>((resolve) => {
      const request = { body: 'x'.repeat(1_000) }
      const append = (): void =>
        void entries.push(appendTo(journal, inferenceRecord({ requestId: 'a' }), () => resolve([new WeakRef(request)])))
      append()
    })
    await waitFor('the request to be collected', () => {
      collect()
      return requests[0]?.deref() === undefined
    })
    expect(entries.map(({ requestId }) => requestId)).toEqual(['a'])
  })

  test('sync flushes everything appended before it, also during another sync', async () => {
    const dir = makeFolder()
    const { journal } = openJournal(dir)
    let done = 0
    const append = (requestId: string) => appendTo(journal, inferenceRecord({ requestId }), () => (done += 1))
    append('a')
    const first = journal.sync()
    append('b')
    const second = journal.sync()
    append('c')
    const third = journal.sync()
    await Promise.all([first, second, third])
    expect(done).toBe(3)
    expect(fs.readFileSync(onlySegment(dir), 'utf8').split('\n')).toHaveLength(4)
  })
})

describe('replay', () => {
  test('returns records unchanged, in batches of bounded size', async () => {
    const dir = makeFolder()
    const written = inferenceRecord({
      requestId: 'whole',
      reason: 'naïve\n“text”',
      requestBody: 'v1.x',
      firstByteMs: 12,
      totalMs: 80,
      cost: nanoUsdOf(123456n),
    })
    const { journal } = openJournal(dir)
    await new Promise<void>((resolve) => void appendTo(journal, written, resolve))
    await writeRecords(journal, names(2_500))
    await journal.close()
    const batches: number[] = []
    const records = []
    for await (const batch of openJournal(dir).journal.replay()) {
      batches.push(batch.length)
      records.push(...batch)
    }
    expect(records[0]).toEqual(written)
    expect(records.map((record) => record.requestId)).toEqual(['whole', ...names(2_500)])
    expect(batches).toEqual([1_000, 1_000, 501])
  })

  test('reads the JSON of earlier versions', async () => {
    const dir = makeFolder()
    const record = inferenceRecord({
      requestId: 'old',
      holdKey: 'purse:gw:acc',
      cost: nanoUsdOf(42n),
      requestBody: 'v1.x',
    })
    const text = JSON.stringify({ ...record, cost: '42' })
    fs.writeFileSync(path.join(dir, '000000000001.log'), withChecksum(text))
    const records = []
    for await (const batch of openJournal(dir).journal.replay()) records.push(...batch)
    expect(records).toEqual([record])
  })

  test('skips settled records, across segments, restarts and an unsettled batch', async () => {
    const step = fc.oneof(
      { weight: 4, arbitrary: fc.record({ kind: fc.constant('append' as const), count: fc.nat(40) }) },
      { weight: 3, arbitrary: fc.record({ kind: fc.constant('settle' as const), share: fc.nat(100) }) },
      { weight: 2, arbitrary: fc.record({ kind: fc.constant('reopen' as const), isDone: fc.boolean() }) },
    )
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 3, maxLength: 14 }), async (steps) => {
        const dir = makeFolder()
        let { journal } = openJournal(dir, { segmentBytes: 4_096 })
        let unsettled: Array<{ id: string; entry: JournalEntry | undefined }> = []
        const [replayed, expected]: [string[][], string[][]] = [[], []]
        let count = 0
        for (const one of steps) {
          if (one.kind === 'append') {
            const ids = names(one.count, `req_${(count += 1)}_`)
            const entries = await writeRecords(journal, ids)
            unsettled.push(...ids.map((id, n) => ({ id, entry: entries[n] })))
          } else if (one.kind === 'settle') {
            const settled = Math.floor((unsettled.length * one.share) / 100)
            const last = unsettled[settled - 1]?.entry
            if (last === undefined) continue
            journal.settle(last)
            unsettled = unsettled.slice(settled)
          } else {
            await journal.close()
            journal = openJournal(dir, { segmentBytes: 4_096 }).journal
            if (!one.isDone) {
              // The database was down: a batch was read but not settled.
              const reading = journal.replay()
              await reading.next()
              await reading.return(undefined)
              await journal.close()
              journal = openJournal(dir, { segmentBytes: 4_096 }).journal
            }
            replayed.push(await replay(journal))
            expected.push(unsettled.map(({ id }) => id))
            unsettled = []
          }
        }
        await journal.close()
        replayed.push(await replay(openJournal(dir).journal))
        expected.push(unsettled.map(({ id }) => id))
        expect(replayed).toEqual(expected)
      }),
      { numRuns: 25 },
    )
  })

  test('deletes settled segments', async () => {
    const dir = makeFolder()
    const { journal } = openJournal(dir, { segmentBytes: 1_024 })
    const entries: JournalEntry[] = []
    for (const id of names(40)) entries.push(...(await writeRecords(journal, [id])))
    const before = segmentsOf(dir).length
    expect(before).toBeGreaterThan(3)
    settleUpTo(journal, entries, 19)
    await waitFor('fewer segments', () => segmentsOf(dir).length < before)
    settleUpTo(journal, entries, 39)
    await waitFor('one segment at most', () => segmentsOf(dir).length <= 1)
  })

  test('a torn mark only costs a longer replay', async () => {
    const dir = makeFolder()
    const { journal } = openJournal(dir)
    const entries = await writeRecords(journal, names(4))
    settleUpTo(journal, entries, 1)
    await journal.close()
    fs.truncateSync(path.join(dir, 'settled'), 5)
    const again = openJournal(dir)
    expect(await replay(again.journal)).toEqual(names(4))
    expect(again.reported).toMatchObject([{ level: 'warn' }])
  })

  test('an old mark never covers new records', async () => {
    const dir = makeFolder()
    const first = openJournal(dir)
    const entries = await writeRecords(first.journal, names(50))
    settleUpTo(first.journal, entries, 49)
    await first.journal.close()
    // All records that it covered are gone.
    expect(await replay(openJournal(dir).journal)).toEqual([])
    await waitFor('no segment', () => segmentsOf(dir).length === 0)
    const { journal } = openJournal(dir)
    await writeRecords(journal, ['new'])
    await journal.close()
    expect(await replay(openJournal(dir).journal)).toEqual(['new'])
  })
})
