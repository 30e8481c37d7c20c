/**
 * The data folder and the database behind it. Apart from serve.ts because it comes first and takes longest: while
 * PostgreSQL starts, main.ts loads the rest of the program.
 */
import { openDataFolder } from './data-folder.ts'
import { startEmbeddedPostgres } from './embedded-postgres.ts'
import type { Settings } from './settings.ts'

export interface OpenData {
  readonly dir: string
  readonly databaseUrl: string
  /** Resolves when our own PostgreSQL has ended by itself. */
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
      broken: postgres.exited.then(() => 'PostgreSQL has ended'),
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
