/** Resource metrics: event loop, disk, database, journal, version. */
import { readdir, stat, statfs } from 'node:fs/promises'
import path from 'node:path'
import type { App } from '../../app/app.ts'
import type { Metrics } from '../../base/metrics.ts'
import { readDatabaseBytes, readVolumeGb } from '../../store/platform/gauge.ts'
import { findLastLedgerCheck } from '../../store/ledger/ledger-verify.ts'
import packageJson from '../../../package.json' with { type: 'json' }

const LAG_EVERY_MS = 500
const LAG_BUCKETS = [0.005, 0.02, 0.1, 0.5, 2, 10]

export function watchResources(
  app: App,
  metrics: Metrics,
  folders: { readonly dataDir: string; readonly volumeDir: string | undefined },
): { stop(): void } {
  metrics
    .gauge('berth_build_info', 'Always 1; the version is in the labels')
    .set(1, { version: packageJson.version, node: process.versions.node })
  watchDisks(metrics, folders)
  watchDatabase(app, metrics)
  return watchEventLoop(metrics)
}

function watchEventLoop(metrics: Metrics): { stop(): void } {
  const lag = metrics.histogram('berth_event_loop_lag_seconds', 'Timer delay, sampled twice per second', LAG_BUCKETS)
  const observe = lag.bind({})
  let dueAt = performance.now() + LAG_EVERY_MS
  const timer = setInterval(() => {
    const now = performance.now()
    observe(Math.max(0, now - dueAt) / 1_000)
    dueAt = now + LAG_EVERY_MS
  }, LAG_EVERY_MS).unref()
  return { stop: () => clearInterval(timer) }
}

function watchDisks(metrics: Metrics, folders: { dataDir: string; volumeDir: string | undefined }): void {
  const free = metrics.gauge('berth_disk_free_bytes', 'Free disk space by folder purpose')
  const total = metrics.gauge('berth_disk_bytes', 'Disk size by folder purpose')
  const journal = metrics.gauge('berth_journal_bytes', 'Size of the journal of finished inference requests')
  metrics.collect(async () => {
    const disks = { data: folders.dataDir, ...(folders.volumeDir === undefined ? {} : { volumes: folders.volumeDir }) }
    for (const [use, folder] of Object.entries(disks)) {
      const disk = await statfs(folder)
      free.set(disk.bavail * disk.bsize, { for: use })
      total.set(disk.blocks * disk.bsize, { for: use })
    }
    journal.set(await sizeOf(path.join(folders.dataDir, 'journal')))
  })
}

async function sizeOf(folder: string): Promise<number> {
  let bytes = 0
  for (const name of await readdir(folder)) {
    // Segments are deleted when settled.
    const file = await stat(path.join(folder, name)).catch(() => undefined)
    bytes += file?.size ?? 0
  }
  return bytes
}

function watchDatabase(app: App, metrics: Metrics): void {
  const bytes = metrics.gauge('berth_database_bytes', 'Size of the database')
  const volumes = metrics.gauge('berth_volume_bytes', 'Total volume size by state, without deleted volumes')
  const checkedAt = metrics.gauge('berth_ledger_check_timestamp_seconds', 'Time of the last ledger check; 0: never')
  const findings = metrics.gauge('berth_ledger_check_findings', 'Problems found by the last ledger check')
  metrics.collect(async () => {
    const { db } = app.database
    bytes.set(await readDatabaseBytes(db))
    const gb = await readVolumeGb(db)
    for (const state of ['creating', 'active', 'suspended', 'deleting', 'failed'] as const)
      volumes.set((gb.get(state) ?? 0) * 1e9, { state })
    const last = await findLastLedgerCheck(db)
    checkedAt.set((last?.at ?? 0) / 1_000)
    findings.set(last?.findings ?? 0)
  })
}
