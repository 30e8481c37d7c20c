/** `berth models pull`: follows a model's way from its source to being ready. In a terminal one line that moves. */
import type { Command } from 'commander'
import type { Client } from '../client/client.ts'
import { pause } from '../client/pause.ts'
import { parseModelName } from './model-option.ts'
import { localWords, percentOf, progressWords, type LocalState } from './model-state.ts'
import { printable, type Screen } from './screen.ts'
import type { Run } from './session.ts'
import { CliError, exitCodes, type Shell } from './shell.ts'

const EVERY_MS = 400
/** So long nothing may move. */
const PATIENCE_MS = 10 * 60_000
/** Without a terminal, a line comes at each of these steps. */
const STEP_PERCENT = 10

export function addPullCommand(models: Command, run: Run, shell: Shell): void {
  const pull = models
    .command('pull')
    .description('follow its download until it is ready')
    .argument('<name>', 'as berth models ls shows it', parseModelName)
  pull.action(
    run('operator', async ({ client, screen }, name = '') => {
      const json = pull.optsWithGlobals<{ json?: true }>().json === true
      const show = shell.colour.out && !json ? barIn(shell) : linesIn(screen, name)
      const never = new AbortController().signal
      let last = ''
      let movedAt = performance.now()
      for (;;) {
        const local = await readState(client, name)
        const seen = JSON.stringify(local)
        if (seen !== last) movedAt = performance.now()
        last = seen
        if (local.state === 'failed') {
          show.end()
          throw failed(name, local)
        }
        show.state(local)
        if (local.state === 'ready') break
        if (performance.now() - movedAt > PATIENCE_MS) {
          show.end()
          throw new CliError(exitCodes.failed, `${name} has not moved for ten minutes: ${localWords(local)}.`, [
            "The server's log may say why.",
          ])
        }
        await pause(EVERY_MS, never)
      }
      show.end()
      screen.remark(`${name} is ready.`)
    }),
  )
}

async function readState(client: Client, name: string): Promise<LocalState> {
  const { models } = await client.call('listOperatedModels')
  const model = models.find((one) => one.name === name)
  const no = (message: string, next: string): CliError => new CliError(exitCodes.failed, message, [next])
  if (model === undefined) throw no(`There is no model ${name}.`, 'berth models ls lists the models.')
  if (model.engine === null) {
    throw no(`${name} has no file to download.`, 'Servers elsewhere run it: berth deployments ls')
  }
  if (!model.enabled) throw no(`${name} is disabled.`, `Enable it with: berth models enable ${name}`)
  if (model.local !== null) return model.local
  throw no(`The server at ${client.url} does not run ${name} itself.`, 'Is BERTH_LOCAL_ENGINES false there?')
}

function failed(name: string, { message, retryInMs }: LocalState): CliError {
  const seconds = Math.max(1, Math.ceil((retryInMs ?? 0) / 1_000))
  return new CliError(exitCodes.failed, `${name} failed: ${message ?? 'no reason given'}.`, [
    `The server tries again in ${seconds} s; berth models pull ${name} follows that.`,
  ])
}

interface Follower {
  state(local: LocalState): void
  end(): void
}

const BAR_CHARS = 30

/** Draws over itself. */
function barIn(shell: Shell): Follower {
  let drawn = false
  return {
    state: (local) => {
      drawn = true
      const percent = percentOf(local)
      const filled = percent === undefined ? 0 : Math.round((percent / 100) * BAR_CHARS)
      const bar = `${'█'.repeat(filled)}${'░'.repeat(BAR_CHARS - filled)}`
      const text = local.state === 'pulling' ? `${bar} ${progressWords(local)}` : printable(localWords(local))
      shell.write(`\r\u001B[K${text}`)
    },
    end: () => {
      if (drawn) shell.write('\r\u001B[K')
    },
  }
}

/** One line a step, for logs; programs get every state that was seen. */
function linesIn(screen: Screen, name: string): Follower {
  let shown = ''
  return {
    state: (local) => {
      const step = Math.floor((percentOf(local) ?? 0) / STEP_PERCENT)
      const key = `${local.state} ${step}`
      if (key === shown) return
      shown = key
      if (local.state === 'ready') screen.showLine(local, () => printable(`${name}: ready`))
      else screen.showLine(local, () => printable(`${name}: ${localWords(local)}`))
    },
    end: () => {},
  }
}
