/**
 * Opens the data folder and the database. Separate from serve.ts because it takes longest: while PostgreSQL starts,
 * main.ts loads the rest of the program.
 */
import { openDataFolder } from './data-folder.ts'
import { startEmbeddedPostgres } from './embedded-postgres.ts'
import type { Settings } from '../settings.ts'

export interface OpenData {
  readonly dir: string
  readonly databaseUrl: string
  /** Resolves if the embedded PostgreSQL exits on its own. */
  readonly broken: Promise<string>
  close(): Promise<void>
}

export async function openData(settings: Settings, log: (line: string) => void = () => {}): Promise<OpenData> {
  const folder = await openDataFolder(settings.dataDir)
  if (settings.databaseUrl !== undefined) {
    const { databaseUrl } = settings
    return { dir: folder.dir, databaseUrl, broken: new Promise(() => {}), close: () => folder.release() }
  }
  try {
    const postgres = await startEmbeddedPostgres({ dataDir: folder.dir, log })
    return {
      dir: folder.dir,
      databaseUrl: postgres.url,
      broken: postgres.exited.then(() => 'PostgreSQL has exited unexpectedly'),
      close: async () => {
        await postgres.stop()
        await folder.release()
      },
    }
  } catch (error) {
    await folder.release()
    throw error
  }
}
