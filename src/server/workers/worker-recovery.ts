/** Settles what workers have left in their journals: those of an earlier run, and one that was killed. */
import { existsSync, readdirSync } from 'node:fs'
import path from 'node:path'
import type { Logger } from 'pino'
import type { Treasury } from '../../domain/purse.ts'
import { settleRecords } from '../../domain/settlement.ts'
import { Journal } from '../../gateway/journal/journal.ts'
import { openDataFolder } from '../data/data-folder.ts'
import { WORKER_JOURNAL } from './worker-journal.ts'

/** An orphan of a killed server exits within milliseconds. */
const ORPHAN_MS = 10_000
const LOOK_MS = 50

interface RecoveryOptions {
  readonly treasury: Pick<Treasury, 'settle'>
  readonly log: Logger
}

export async function recoverWorkers(dataDir: string, options: RecoveryOptions): Promise<void> {
  const all = path.join(dataDir, 'journal')
  const names = existsSync(all) ? readdirSync(all).filter((name) => WORKER_JOURNAL.test(name)) : []
  for (const name of names) await recoverWorker(path.join(all, name), options)
}

export async function recoverWorker(journalDir: string, { treasury, log }: RecoveryOptions): Promise<void> {
  const folder = await takeFolder(journalDir)
  try {
    const journal = new Journal({ dir: folder.dir, log })
    for await (const batch of journal.replay()) await settleRecords(treasury, batch)
    await journal.close()
  } finally {
    await folder.release()
  }
}

async function takeFolder(dir: string): ReturnType<typeof openDataFolder> {
  const giveUpAt = performance.now() + ORPHAN_MS
  for (;;) {
    try {
      return await openDataFolder(dir)
    } catch (error) {
      if (performance.now() > giveUpAt) throw error
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS))
    }
  }
}
