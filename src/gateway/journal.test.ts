/** The promises: what was acknowledged is replayed after any death, once and in order, and no damage is fatal or silent. */
import { spawn } from 'node:child_process'
import * as fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import * as fc from 'fast-check'
import { afterEach, describe, expect, test } from 'vitest'
import { inferenceRecord } from '../../test/harness/ended-request.ts'
import { waitFor } from '../../test/harness/wait.ts'
import { Journal, type JournalEntry, type JournalOptions } from './journal.ts'

const folders: string[] = []
const opened: Journal[] = []
afterEach(async () => {
  await Promise.all(opened.splice(0).map((journal) => journal.close()))
  for (const folder of folders.splice(0)) fs.rmSync(folder, { recursive: true, force: true })
})

function makeFolder(): string {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'berth-journal-'))
  folders.push(folder)
  return folder
}

interface Told {
  readonly level: 'warn' | 'error'
  readonly message: string
}

function openJournal(dir: string, more: Partial<JournalOptions> = {}): { journal: Journal; told: Told[] } {
  const told: Told[] = []
  const log = {
    warn: (_: unknown, message: string) => void told.push({ level: 'warn', message }),
    error: (_: unknown, message: string) => void told.push({ level: 'error', message }),
  }
  const journal = new Journal({ dir, log, ...more })
  opened.push(journal)
  return { journal, told }
}

async function write(journal: Journal, ids: readonly string[]): Promise<JournalEntry[]> {
  let left = ids.length
  const entries: JournalEntry[] = []
  await new Promise<void>((resolve) => {
    if (left === 0) resolve()
    for (const requestId of ids) {
      entries.push(
        journal.append(inferenceRecord({ requestId }), () => {
          left -= 1
          if (left === 0) resolve()
        }),
      )
    }
  })
  return entries
}

async function replay(journal: Journal): Promise<string[]> {
  const ids: string[] = []
  for await (const batch of journal.replay()) ids.push(...batch.map((record) => record.requestId))
  return ids
}

function settleUpTo(journal: Journal, entries: readonly JournalEntry[], last: number): void {
  const entry = entries[last]
  if (entry === undefined) throw new Error('no such entry')
  journal.settle(entry)
}

const segmentsOf = (dir: string): string[] => fs.readdirSync(dir).filter((name) => name.endsWith('.log'))
const onlySegment = (dir: string): string => path.join(dir, segmentsOf(dir)[0] ?? '')
const names = (count: number, prefix = 'req_') => Array.from({ length: count }, (_, n) => `${prefix}${n}`)

describe('writing', () => {
  test('the records of one turn are written by one call, and only then their continuations run, in order', async () => {
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
        journal.append(inferenceRecord({ requestId }), () => {
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

  test('a continuation that throws keeps nobody else waiting', async () => {
    const { journal, told } = openJournal(makeFolder())
    await new Promise<void>((resolve) => {
      journal.append(inferenceRecord({ requestId: 'bad' }), () => {
        throw new Error('a bug')
      })
      journal.append(inferenceRecord({ requestId: 'good' }), resolve)
    })
    expect(told.map((one) => one.level)).toEqual(['error'])
  })

  test('sync brings to the disk what was appended before it, also while another one runs', async () => {
    const dir = makeFolder()
    const { journal } = openJournal(dir)
    let done = 0
    const append = (requestId: string) => journal.append(inferenceRecord({ requestId }), () => (done += 1))
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
  test('brings records back as they were, in batches of bounded size', async () => {
    const dir = makeFolder()
    const written = inferenceRecord({
      requestId: 'whole',
      reason: 'naïve\n“text”',
      requestBody: 'v1.x',
      cost: '123456',
    })
    const { journal } = openJournal(dir)
    await new Promise<void>((resolve) => void journal.append(written, resolve))
    await write(journal, names(2_500))
    await journal.close()
    const batches: number[] = []
    const found = []
    for await (const batch of openJournal(dir).journal.replay()) {
      batches.push(batch.length)
      found.push(...batch)
    }
    expect(found[0]).toEqual(written)
    expect(found.map((record) => record.requestId)).toEqual(['whole', ...names(2_500)])
    expect(batches).toEqual([1_000, 1_000, 501])
  })

  test('leaves out what is known to be settled, over segments, restarts and a batch that was not settled', async () => {
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
            const entries = await write(journal, ids)
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
              // The books were away: a batch was read, and none is settled.
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

  test('segments whose records are all settled are deleted', async () => {
    const dir = makeFolder()
    const { journal } = openJournal(dir, { segmentBytes: 4_096 })
    const entries: JournalEntry[] = []
    for (const id of names(40)) entries.push(...(await write(journal, [id])))
    const before = segmentsOf(dir).length
    expect(before).toBeGreaterThan(3)
    settleUpTo(journal, entries, 19)
    await waitFor('fewer segments', () => segmentsOf(dir).length < before)
    settleUpTo(journal, entries, 39)
    await waitFor('one segment at most', () => segmentsOf(dir).length <= 1)
  })

  test('a mark that is torn costs a longer replay and nothing else', async () => {
    const dir = makeFolder()
    const { journal } = openJournal(dir)
    const entries = await write(journal, names(4))
    settleUpTo(journal, entries, 1)
    await journal.close()
    fs.truncateSync(path.join(dir, 'settled'), 5)
    const again = openJournal(dir)
    expect(await replay(again.journal)).toEqual(names(4))
    expect(again.told).toMatchObject([{ level: 'warn' }])
  })

  test('an old mark never speaks of new records', async () => {
    const dir = makeFolder()
    const first = openJournal(dir)
    const entries = await write(first.journal, names(50))
    settleUpTo(first.journal, entries, 49)
    await first.journal.close()
    // All that it was about is gone.
    expect(await replay(openJournal(dir).journal)).toEqual([])
    await waitFor('no segment', () => segmentsOf(dir).length === 0)
    const { journal } = openJournal(dir)
    await write(journal, ['new'])
    await journal.close()
    expect(await replay(openJournal(dir).journal)).toEqual(['new'])
  })
})

describe('damage', () => {
  test('a last line that was cut off is ignored, wherever the cut is', async () => {
    const dir = makeFolder()
    const { journal } = openJournal(dir)
    await write(journal, ['a', 'b', 'c'])
    await journal.close()
    const whole = fs.readFileSync(onlySegment(dir))
    const last = whole.lastIndexOf(10, whole.length - 2) + 1
    for (const cut of [1, 5, 9, 40, whole.length - last - 1]) {
      const other = makeFolder()
      fs.writeFileSync(path.join(other, '000000000001.log'), whole.subarray(0, last + cut))
      const { journal: torn, told } = openJournal(other)
      expect(await replay(torn), `${cut} bytes of the last line`).toEqual(['a', 'b'])
      expect(told).toMatchObject([{ level: 'warn', message: expect.stringContaining('cut off') }])
    }
  })

  test('a line in the middle that was changed is told loudly, kept aside, and the others are replayed', async () => {
    const dir = makeFolder()
    const { journal } = openJournal(dir)
    await write(journal, names(5))
    await journal.close()
    const segment = onlySegment(dir)
    const lines = fs.readFileSync(segment, 'utf8').split('\n')
    const damaged = (lines[2] ?? '').replace('model-a', 'model-b')
    fs.writeFileSync(segment, [lines[0], lines[1], damaged, 'rubbish', ...lines.slice(3)].join('\n'))
    const { journal: again, told } = openJournal(dir)
    expect(await replay(again)).toEqual(['req_0', 'req_1', 'req_3', 'req_4'])
    expect(told.map((one) => one.level)).toEqual(['error', 'error'])
    expect(fs.readFileSync(`${segment}.damaged`, 'utf8')).toBe(`${damaged}\nrubbish\n`)
  })

  test('a line without an end does not fill the memory', async () => {
    const dir = makeFolder()
    const { journal } = openJournal(dir)
    await write(journal, ['a'])
    await journal.close()
    fs.appendFileSync(onlySegment(dir), Buffer.alloc(18 * 1_048_576, 'x'))
    fs.appendFileSync(onlySegment(dir), '\n')
    const { journal: again, told } = openJournal(dir)
    expect(await replay(again)).toEqual(['a'])
    expect(told.some((one) => one.level === 'error')).toBe(true)
  })
})

describe('a disk that is full', () => {
  function fullDisk() {
    const disk = { isFull: false }
    const write = (file: number, bytes: Uint8Array, offset: number): number => {
      if (!disk.isFull) return fs.writeSync(file, bytes, offset)
      // Some of it still fits.
      fs.writeSync(file, bytes, offset, 7)
      throw Object.assign(new Error('no space left on device'), { code: 'ENOSPC' })
    }
    return { disk, write }
  }

  test('acknowledges nothing until it has room again, and then loses nothing', async () => {
    const dir = makeFolder()
    const { disk, write: writeTo } = fullDisk()
    const { journal, told } = openJournal(dir, { write: writeTo })
    await write(journal, ['before'])
    disk.isFull = true
    const seen: string[] = []
    const append = (requestId: string) => journal.append(inferenceRecord({ requestId }), () => seen.push(requestId))
    append('a')
    await waitFor('the fault', () => journal.isFailing)
    append('b')
    await journal.sync()
    expect(seen).toEqual([])
    expect(told).toMatchObject([{ level: 'error', message: expect.stringContaining('refused') }])
    disk.isFull = false
    await waitFor('both', () => seen.length === 2)
    expect(journal.isFailing).toBe(false)
    await journal.close()
    const again = openJournal(dir)
    expect(await replay(again.journal)).toEqual(['before', 'a', 'b'])
    expect(again.told).toEqual([])
  })

  test('what the books have need not be written any more, and room that came back is noticed', async () => {
    const dir = makeFolder()
    const { disk, write: writeTo } = fullDisk()
    const { journal } = openJournal(dir, { write: writeTo })
    disk.isFull = true
    const seen: string[] = []
    const entry = journal.append(inferenceRecord({ requestId: 'a' }), () => seen.push('a'))
    journal.append(inferenceRecord({ requestId: 'b' }), () => seen.push('b'))
    await waitFor('the fault', () => journal.isFailing)
    journal.settle(entry)
    expect(seen).toEqual(['a'])
    disk.isFull = false
    await waitFor('the rest', () => seen.length === 2)

    disk.isFull = true
    const last = journal.append(inferenceRecord({ requestId: 'c' }), () => seen.push('c'))
    await waitFor('the fault', () => journal.isFailing)
    journal.settle(last)
    disk.isFull = false
    await waitFor('room', () => !journal.isFailing)
    await journal.close()
    expect(await replay(openJournal(dir).journal)).toEqual([])
  })
})

describe('kill -9', () => {
  const ROUNDS = 5
  /** Appends at full speed; notes what was acknowledged, and what it counts as settled, in a file of its own. */
  const writer = `
    import * as fs from 'node:fs'
    import { Journal } from '${path.resolve('src/gateway/journal.ts')}'
    import { inferenceRecord } from '${path.resolve('test/harness/ended-request.ts')}'
    const [dir, seenPath, round] = process.argv.slice(1)
    const seen = fs.openSync(seenPath, 'a')
    const fail = (facts, message) => { throw new Error(message) }
    const journal = new Journal({ dir, log: { warn: fail, error: fail }, segmentBytes: 65_536 })
    let count = 0
    const burst = () => {
      const size = 1 + (count * 7) % 40
      for (let n = 0; n < size; n += 1) {
        const requestId = round + '.' + (count += 1)
        const entry = journal.append(inferenceRecord({ requestId, cost: String(count) }), () => {
          fs.writeSync(seen, 'done ' + requestId + '\\n')
          if (Number(requestId.split('.')[1]) % 500 !== 0) return
          fs.writeSync(seen, 'settled ' + requestId + '\\n')
          journal.settle(entry)
        })
      }
      setImmediate(burst)
    }
    burst()`

  test('at full speed loses nothing that was acknowledged, and brings nothing back twice', async () => {
    const dir = makeFolder()
    const seenPath = path.join(makeFolder(), 'seen')
    const replayed: string[] = []
    for (let round = 1; round <= ROUNDS; round += 1) {
      const before = fs.existsSync(seenPath) ? fs.statSync(seenPath).size : 0
      const child = spawn(
        process.execPath,
        ['--import', 'tsx', '--input-type=module', '-e', writer, dir, seenPath, String(round)],
        { stdio: ['ignore', 'ignore', 'inherit'] },
      )
      const ended = new Promise<NodeJS.Signals | null>((resolve) => child.once('exit', (_, signal) => resolve(signal)))
      const enough = before + 40_000 * round
      await waitFor('records', () => fs.existsSync(seenPath) && fs.statSync(seenPath).size > enough)
      child.kill('SIGKILL')
      expect(await ended).toBe('SIGKILL')
      const { journal, told } = openJournal(dir)
      replayed.push(...(await replay(journal)))
      expect(told.filter((one) => one.level === 'error')).toEqual([])
    }
    const lines = fs.readFileSync(seenPath, 'utf8').split('\n').slice(0, -1)
    const done = lines.filter((line) => line.startsWith('done ')).map((line) => line.slice(5))
    const numberOf = (id: string): [number, number] => {
      const [round = 0, n = 0] = id.split('.').map((part) => Number.parseInt(part, 10))
      return [round, n]
    }
    const settledUpTo = new Map<number, number>()
    for (const line of lines.filter((one) => one.startsWith('settled '))) settledUpTo.set(...numberOf(line.slice(8)))
    expect(settledUpTo.size).toBe(ROUNDS)
    const found = new Set(replayed)
    expect(found.size).toBe(replayed.length)
    const lost = done.filter((id) => {
      const [round, n] = numberOf(id)
      return !found.has(id) && n > (settledUpTo.get(round) ?? 0)
    })
    expect(lost).toEqual([])
    // In the order in which they were written.
    const inOrder = replayed.toSorted((a, b) => {
      const [[roundA, nA], [roundB, nB]] = [numberOf(a), numberOf(b)]
      return roundA - roundB || nA - nB
    })
    expect(replayed).toEqual(inOrder)
    expect(done.length).toBeGreaterThan(1_000 * ROUNDS)
  })
})
