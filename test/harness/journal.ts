/** Journals in temporary folders, removed when their test ends. */
import * as fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { onTestFinished } from 'vitest'
import { Journal, type JournalEntry, type JournalOptions } from '../../src/gateway/journal/journal.ts'
import { inferenceRecord } from './ended-request.ts'
import type { InferenceRecord } from '../../src/domain/inference-record.ts'
import { SettlementBatch } from '../../src/domain/settlement.ts'

export function makeFolder(): string {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'berth-journal-'))
  onTestFinished(() => fs.rmSync(folder, { recursive: true, force: true }))
  return folder
}

export interface LoggedLine {
  readonly level: 'warn' | 'error'
  readonly message: string
}

export function openJournal(
  dir: string,
  more: Partial<JournalOptions> = {},
): { journal: Journal; reported: LoggedLine[] } {
  const reported: LoggedLine[] = []
  const log = {
    warn: (_: unknown, message: string) => void reported.push({ level: 'warn', message }),
    error: (_: unknown, message: string) => void reported.push({ level: 'error', message }),
  }
  const journal = new Journal({ dir, log, ...more })
  onTestFinished(() => journal.close())
  return { journal, reported }
}

/** As the meter does. */
export function appendTo(journal: Journal, record: InferenceRecord, done: () => void): JournalEntry {
  return journal.append(record.requestId, new SettlementBatch().add(record), done)
}

export async function writeRecords(journal: Journal, ids: readonly string[]): Promise<JournalEntry[]> {
  let left = ids.length
  const entries: JournalEntry[] = []
  await new Promise<void>((resolve) => {
    if (left === 0) resolve()
    for (const requestId of ids) {
      entries.push(
        appendTo(journal, inferenceRecord({ requestId }), () => {
          left -= 1
          if (left === 0) resolve()
        }),
      )
    }
  })
  return entries
}

export async function replay(journal: Journal): Promise<string[]> {
  const ids: string[] = []
  for await (const batch of journal.replay()) ids.push(...batch.map((record) => record.requestId))
  return ids
}

export function settleUpTo(journal: Journal, entries: readonly JournalEntry[], last: number): void {
  const entry = entries[last]
  if (entry === undefined) throw new Error('no such entry')
  journal.settle(entry)
}

export const segmentsOf = (dir: string): string[] => fs.readdirSync(dir).filter((name) => name.endsWith('.log'))
export const onlySegment = (dir: string): string => path.join(dir, segmentsOf(dir)[0] ?? '')
export const names = (count: number, prefix = 'req_') => Array.from({ length: count }, (_, n) => `${prefix}${n}`)
