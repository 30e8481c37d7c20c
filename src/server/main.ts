/** `berth serve`: starts a server, prints the next steps, and stops it cleanly. */
import { openData } from './data/open-data.ts'
import { checkPorts, listenFailure } from './http/port-check.ts'
import type { RunningServer } from './serve.ts'
import { readSettings, SettingsError, type Settings } from './settings.ts'
import { usage, welcome } from './welcome.ts'

/** Settling and closing after the last request. A stop that takes longer is forced. */
const CLOSE_TIMEOUT_MS = 10_000

const OPTIONS: readonly string[] = ['--new-operator-key', '--new-secret-key', '--migrate-only']

async function main(): Promise<void> {
  // The reader of our output may have exited (EPIPE): keep serving.
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {})
  const flags = process.argv.slice(process.argv[2] === 'serve' ? 3 : 2)
  if (flags.includes('--help') || flags.includes('-h')) return void process.stdout.write(usage())
  const [newOperatorKey, newSecretKey, migrateOnly] = OPTIONS.map((option) => flags.includes(option))
  const unknown = flags.find((flag) => !OPTIONS.includes(flag))
  if (unknown !== undefined)
    throw new SettingsError(
      `Unknown option ${unknown}. berth serve reads its settings from the environment; --help lists them.`,
    )
  const settings = readSettings(process.env)
  if (migrateOnly === true) return upgradeDatabase(settings)
  const startedAt = performance.now()
  await checkPorts(settings)
  // Load the rest of the program while PostgreSQL starts.
  const [data, { serve }] = await Promise.all([openData(settings), import('./serve.ts')])
  const server = await serve(settings, {
    data,
    newOperatorKey: newOperatorKey === true,
    newSecretKey: newSecretKey === true,
  }).catch((error: unknown) => {
    throw listenFailure(settings, error) ?? error
  })
  const { url, newAccounts, demoLinkToken } = server
  // Before the welcome text: a script may send SIGTERM as soon as it reads it.
  stopOnSignal(server, settings)
  // Standard output carries only the log, one JSON object per line.
  process.stderr.write(welcome({ url, settings, newAccounts, demoLinkToken, tookMs: performance.now() - startedAt }))
  void server.broken.then((why) => {
    if (ending) return
    process.stderr.write(`${why}; stopping.\n`)
    return end(server, settings, 1)
  })
}

/** Before a roll-out: servers of the older version keep running meanwhile. */
async function upgradeDatabase(settings: Settings): Promise<void> {
  if (settings.databaseUrl === undefined)
    throw new SettingsError(
      '--migrate-only needs DATABASE_URL: the embedded database is upgraded when its server starts.',
    )
  const { migrateAt } = await import('./parts/store.ts')
  const done = await migrateAt(settings.databaseUrl)
  const what = done.length === 0 ? 'It was up to date already.' : `Applied: ${done.join(', ')}.`
  process.stderr.write(`The database is ready for this version. ${what}\n`)
}

let ending = false

async function end(server: RunningServer, { finishMs }: Pick<Settings, 'finishMs'>, code: number): Promise<void> {
  if (ending) return
  ending = true
  setTimeout(() => process.exit(1), finishMs + CLOSE_TIMEOUT_MS).unref()
  await server.close()
  process.exit(code)
}

/**
 * The first signal drains, so that load balancers notice, and then stops. A second one skips the drain; during the stop
 * it exits at once.
 */
function stopOnSignal(server: RunningServer, settings: Settings): void {
  const { drainMs } = settings
  let draining: NodeJS.Timeout | undefined
  const stop = (): void => {
    clearTimeout(draining)
    process.stderr.write('\nStopping …\n')
    void end(server, settings, 0)
  }
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => {
      if (ending) process.exit(1)
      if (draining !== undefined || drainMs === 0) return stop()
      server.startDraining()
      process.stderr.write(`\nDraining for ${drainMs / 1_000} s …\n`)
      draining = setTimeout(stop, drainMs)
    })
  }
}

main().catch((error: unknown) => {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`)
  if (!(error instanceof SettingsError) && process.env.BERTH_LOG_LEVEL === 'debug') throw error
  process.exit(1)
})
