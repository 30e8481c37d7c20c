/** Opens the database, brings it up to date, and opens what is sealed in it. */
import path from 'node:path'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { App } from '../../app/app.ts'
import { makeMetricRecorder } from '../../app/rental/metric-recorder.ts'
import { systemClock } from '../../base/instant.ts'
import { openDatabase, pingDatabase } from '../../store/platform/database.ts'
import { migrate } from '../../store/platform/migrate.ts'
import { openVault } from '../data/open-vault.ts'
import { runRecorder } from '../metrics/record-metrics.ts'
import { openParts, type Context, type Part } from './part.ts'
import { answersInTime } from './readiness.ts'

export type StoreApp = Pick<App, 'database' | 'clock' | 'installationId' | 'vault'> & Required<Pick<App, 'recorder'>>

export interface Store extends Part {
  readonly app: StoreApp
}

export function openStore(
  { settings, dataDir, clock, log }: Context,
  { databaseUrl, newSecretKey }: { databaseUrl: string; newSecretKey: boolean },
): Promise<Store> {
  return openParts(async (parts) => {
    const poolSize = settings.databaseConnections
    const database = await parts.add(openDatabase({ url: databaseUrl, clock, poolSize, log }))
    await migrate(database.pool, schemaFolder())
    const { vault, installationId } = await openVault({ database, clock, settings, dataDir, newSecretKey, log })
    const recorder = makeMetricRecorder({ database, clock })
    await parts.add({ close: runRecorder(recorder, log) })
    return {
      app: { database, clock, installationId, vault, recorder },
      checks: { database: () => answersInTime(() => pingDatabase(database)) },
    }
  })
}

/** Returns the files of schema/ that it has run. */
export async function migrateAt(databaseUrl: string): Promise<string[]> {
  const database = openDatabase({ url: databaseUrl, clock: systemClock, poolSize: 1 })
  try {
    return await migrate(database.pool, schemaFolder())
  } finally {
    await database.close()
  }
}

/** Beside the bundle in dist/, or beside src/ in development. */
function schemaFolder(): string {
  let dir = path.dirname(fileURLToPath(import.meta.url))
  while (!existsSync(path.join(dir, 'schema', 'baseline'))) {
    const parent = path.dirname(dir)
    if (parent === dir) throw new Error('the schema/ folder is missing')
    dir = parent
  }
  return path.join(dir, 'schema')
}
