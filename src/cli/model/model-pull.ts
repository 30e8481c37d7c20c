/** `berth models pull`: the progress of a download; in a terminal a bar. */
import type { Client } from '../../client/client.ts'
import { pause } from '../../client/pause.ts'
import { localLabel, percentOf, progressLabel, type LocalState } from '../../view/model.ts'
import { makeBar, type Bar } from '../kit/bar.ts'
import { custom } from '../kit/row.ts'
import { printable, type Screen } from '../kit/screen.ts'
import { CliError, exitCodes } from '../kit/shell.ts'
import type { Row } from '../kit/row-type.ts'

const POLL_MS = 400
const MAX_STALL_MS = 10 * 60_000
/** Without a terminal, a line is printed for each of these steps. */
const STEP_PERCENT = 10

export const pullRow: Row = custom('models pull', 'follow the download of a model until it is ready', {
  operation: 'listOperatedModels',
  args: { '<name>': 'name, as shown by berth models ls' },
  run: async ({ client, screen, session, shell, args }) => {
    const name = String(args[0])
    const show = shell.color.out && !session.json ? barOf(makeBar((text) => shell.write(text))) : linesIn(screen, name)
    const isReady = await followPull(client, name, show).finally(() => show.end())
    screen.remark(isReady ? `${name} is ready.` : `${name} is downloaded with its first request.`)
  },
  examples: ['berth models pull owner/small'],
})

/** false: the model's first request will download it. */
async function followPull(client: Client, name: string, show: Follower): Promise<boolean> {
  const never = new AbortController().signal
  let last = ''
  let movedAt = performance.now()
  for (;;) {
    const local = await readState(client, name)
    const state = JSON.stringify(local)
    if (state !== last) movedAt = performance.now()
    last = state
    if (local.state === 'failed') throw failed(name, local)
    show.state(local)
    if (local.state === 'ready') return true
    if (local.state === 'idle') return false
    if (performance.now() - movedAt > MAX_STALL_MS) {
      throw new CliError(exitCodes.failed, `${name} has made no progress for ten minutes: ${localLabel(local)}.`, [
        "See the server's log.",
      ])
    }
    await pause(POLL_MS, never)
  }
}

async function readState(client: Client, name: string): Promise<LocalState> {
  const { models } = await client.call('listOperatedModels')
  const model = models.find((one) => one.name === name)
  const no = (message: string, next: string): CliError => new CliError(exitCodes.failed, message, [next])
  if (model === undefined) throw no(`There is no model ${name}.`, 'To list them: berth models ls')
  if (model.engine === null) {
    throw no(`${name} has no file to download.`, 'It runs on its upstreams: berth operator upstreams ls')
  }
  if (!model.enabled) throw no(`${name} is disabled.`, `To enable it: berth models enable ${name}`)
  if (model.local !== null) return model.local
  throw no(`The server at ${client.url} does not run ${name} itself.`, 'BERTH_LOCAL_ENGINES may be false there.')
}

function failed(name: string, { message, retryInMs }: LocalState): CliError {
  const seconds = Math.max(1, Math.ceil((retryInMs ?? 0) / 1_000))
  return new CliError(exitCodes.failed, `${name} failed: ${message ?? 'no reason given'}.`, [
    `The server retries in ${seconds} s. To follow it: berth models pull ${name}`,
  ])
}

interface Follower {
  state(local: LocalState): void
  end(): void
}

function barOf(bar: Bar): Follower {
  return {
    state: (local) => {
      if (local.state === 'pulling') bar.draw((percentOf(local) ?? 0) / 100, progressLabel(local))
      else bar.write(localLabel(local))
    },
    end: () => bar.clear(),
  }
}

/** Prints one line per step, for logs; programs get each as JSON. */
function linesIn(screen: Screen, name: string): Follower {
  let lastKey = ''
  return {
    state: (local) => {
      const step = Math.floor((percentOf(local) ?? 0) / STEP_PERCENT)
      const key = `${local.state} ${step}`
      if (key === lastKey) return
      lastKey = key
      screen.showLine(local, () => printable(`${name}: ${localLabel(local)}`))
    },
    end: () => {},
  }
}
