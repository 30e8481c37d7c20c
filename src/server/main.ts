/** `berth serve`: starts a server, says what to try next, and ends it cleanly. */
import { openData } from './open-data.ts'
import { checkPorts, listenFailure } from './port-check.ts'
import type { RunningServer } from './serve.ts'
import { readSettings, SettingsError } from './settings.ts'
import { usage, welcome } from './welcome.ts'

/** Ctrl-C drains; whatever has not ended by then is cut off. */
const END_WITHIN_MS = 10_000

async function main(): Promise<void> {
  // Whoever read our output may be gone; that is no reason to fall over.
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {})
  const flags = process.argv.slice(process.argv[2] === 'serve' ? 3 : 2)
  if (flags.includes('--help') || flags.includes('-h')) return void process.stdout.write(usage())
  const newOperatorKey = flags.includes('--new-operator-key')
  if (flags.length > (newOperatorKey ? 1 : 0))
    throw new SettingsError(
      `Unknown option ${flags.find((flag) => flag !== '--new-operator-key')}; berth serve takes its settings from the environment (--help lists them)`,
    )
  const settings = readSettings(process.env)
  const startedAt = performance.now()
  await checkPorts(settings)
  // The rest of the program is loaded while PostgreSQL starts.
  const [data, { serve }] = await Promise.all([openData(settings), import('./serve.ts')])
  const server = await serve(settings, { data, newOperatorKey }).catch((error: unknown) => {
    throw listenFailure(settings, error) ?? error
  })
  const { url, made, demoLinkToken } = server
  // Standard output has the log and nothing else, so that whatever collects it can parse every line.
  // Before anybody can know that it is up, and stop it.
  stopOnSignal(server, settings.drainMs)
  process.stderr.write(welcome({ url, settings, made, demoLinkToken, tookMs: performance.now() - startedAt }))
  void server.broken.then((why) => {
    if (ending) return
    process.stderr.write(`${why}; stopping.\n`)
    return end(server, 1)
  })
}

let ending = false

async function end(server: RunningServer, code: number): Promise<void> {
  if (ending) return
  ending = true
  setTimeout(() => process.exit(1), END_WITHIN_MS).unref()
  await server.close()
  process.exit(code)
}

/**
 * The first signal stops the server, after the time that load balancers get to notice. A second one skips that time, or
 * gives up on a stop that is under way already.
 */
function stopOnSignal(server: RunningServer, drainMs: number): void {
  let draining: NodeJS.Timeout | undefined
  const stop = (): void => {
    clearTimeout(draining)
    process.stderr.write('\nStopping …\n')
    void end(server, 0)
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
