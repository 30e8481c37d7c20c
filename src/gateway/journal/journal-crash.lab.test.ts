/** Acknowledged records are replayed once after any crash, and no damage is fatal or silent. */
import { spawn } from 'node:child_process'
import * as fs from 'node:fs'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import { inferenceRecord } from '../../../test/harness/ended-request.ts'
import {
  appendTo,
  makeFolder,
  names,
  onlySegment,
  openJournal,
  replay,
  writeRecords,
} from '../../../test/harness/journal.ts'
import { waitFor } from '../../../test/harness/wait.ts'
import { needs } from '../../../test/needs.ts'

needs('kills')

describe('damage', () => {
  test('ignores a torn last line, wherever it is cut', async () => {
    const dir = makeFolder()
    const { journal } = openJournal(dir)
    await writeRecords(journal, ['a', 'b', 'c'])
    await journal.close()
    const whole = fs.readFileSync(onlySegment(dir))
    const last = whole.lastIndexOf(10, whole.length - 2) + 1
    for (const cut of [1, 5, 9, 40, whole.length - last - 1]) {
      const other = makeFolder()
      fs.writeFileSync(path.join(other, '000000000001.log'), whole.subarray(0, last + cut))
      const { journal: torn, reported } = openJournal(other)
      expect(await replay(torn), `${cut} bytes of the last line`).toEqual(['a', 'b'])
      expect(reported).toMatchObject([{ level: 'warn', message: expect.stringContaining('cut off') }])
    }
  })

  test('reports a changed line in the middle, keeps a copy, and replays the others', async () => {
    const dir = makeFolder()
    const { journal } = openJournal(dir)
    await writeRecords(journal, names(5))
    await journal.close()
    const segment = onlySegment(dir)
    const lines = fs.readFileSync(segment, 'utf8').split('\n')
    const damaged = (lines[2] ?? '').replace('model-a', 'model-b')
    fs.writeFileSync(segment, [lines[0], lines[1], damaged, 'rubbish', ...lines.slice(3)].join('\n'))
    const { journal: again, reported } = openJournal(dir)
    expect(await replay(again)).toEqual(['req_0', 'req_1', 'req_3', 'req_4'])
    expect(reported.map((one) => one.level)).toEqual(['error', 'error'])
    expect(fs.readFileSync(`${segment}.damaged`, 'utf8')).toBe(`${damaged}\nrubbish\n`)
  })

  test('does not fill the memory with a line without end', async () => {
    const dir = makeFolder()
    const { journal } = openJournal(dir)
    await writeRecords(journal, ['a'])
    await journal.close()
    fs.appendFileSync(onlySegment(dir), Buffer.alloc(18 * 1_048_576, 'x'))
    fs.appendFileSync(onlySegment(dir), '\n')
    const { journal: again, reported } = openJournal(dir)
    expect(await replay(again)).toEqual(['a'])
    expect(reported.some((one) => one.level === 'error')).toBe(true)
  })
})

describe('a full disk', () => {
  function fullDisk() {
    const disk = { isFull: false }
    const write = (file: number, bytes: Uint8Array, offset: number): number => {
      if (!disk.isFull) return fs.writeSync(file, bytes, offset)
      // Part of it still fits.
      fs.writeSync(file, bytes, offset, 7)
      throw Object.assign(new Error('no space left on device'), { code: 'ENOSPC' })
    }
    return { disk, write }
  }

  test('acknowledges nothing until it has room again, and then loses nothing', async () => {
    const dir = makeFolder()
    const { disk, write: writeTo } = fullDisk()
    const { journal, reported } = openJournal(dir, { write: writeTo })
    await writeRecords(journal, ['before'])
    disk.isFull = true
    const seen: string[] = []
    const append = (requestId: string) => appendTo(journal, inferenceRecord({ requestId }), () => seen.push(requestId))
    append('a')
    await waitFor('the fault', () => journal.isFailing)
    append('b')
    await journal.sync()
    expect(seen).toEqual([])
    expect(reported).toMatchObject([{ level: 'error', message: expect.stringContaining('refusing new requests') }])
    disk.isFull = false
    await waitFor('both', () => seen.length === 2)
    expect(journal.isFailing).toBe(false)
    await journal.close()
    const again = openJournal(dir)
    expect(await replay(again.journal)).toEqual(['before', 'a', 'b'])
    expect(again.reported).toEqual([])
  })

  test('need not store settled records, and is noticed when it has room again', async () => {
    const dir = makeFolder()
    const { disk, write: writeTo } = fullDisk()
    const { journal } = openJournal(dir, { write: writeTo })
    disk.isFull = true
    const seen: string[] = []
    const entry = appendTo(journal, inferenceRecord({ requestId: 'a' }), () => seen.push('a'))
    appendTo(journal, inferenceRecord({ requestId: 'b' }), () => seen.push('b'))
    await waitFor('the fault', () => journal.isFailing)
    journal.settle(entry)
    expect(seen).toEqual(['a'])
    disk.isFull = false
    await waitFor('the rest', () => seen.length === 2)

    disk.isFull = true
    const last = appendTo(journal, inferenceRecord({ requestId: 'c' }), () => seen.push('c'))
    await waitFor('the fault', () => journal.isFailing)
    journal.settle(last)
    disk.isFull = false
    await waitFor('free memory', () => !journal.isFailing)
    await journal.close()
    expect(await replay(openJournal(dir).journal)).toEqual([])
  })
})

describe('kill -9', () => {
  const ROUNDS = 5
  /** Appends at full speed, and writes the acknowledged and the settled records to a separate file. */
  const writer = `
    import * as fs from 'node:fs'
    import { Journal } from '${path.resolve('src/gateway/journal/journal.ts')}'
    import { SettlementBatch } from '${path.resolve('src/domain/settlement.ts')}'
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
        const line = new SettlementBatch().add(inferenceRecord({ requestId, cost: BigInt(count) }))
        const entry = journal.append(requestId, line, () => {
          fs.writeSync(seen, 'done ' + requestId + '\\n')
          if (Number(requestId.split('.')[1]) % 500 !== 0) return
          fs.writeSync(seen, 'settled ' + requestId + '\\n')
          journal.settle(entry)
        })
      }
      setImmediate(burst)
    }
    burst()`

  test('at full speed loses nothing acknowledged, and replays nothing twice', async () => {
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
      const { journal, reported } = openJournal(dir)
      replayed.push(...(await replay(journal)))
      expect(reported.filter((one) => one.level === 'error')).toEqual([])
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
    const ids = new Set(replayed)
    expect(ids.size).toBe(replayed.length)
    const lost = done.filter((id) => {
      const [round, n] = numberOf(id)
      return !ids.has(id) && n > (settledUpTo.get(round) ?? 0)
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
