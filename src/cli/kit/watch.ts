/** Reads once, or with --watch again and again until Ctrl-C, and shows the answer each time it has changed. */
import { pause } from '../../client/pause.ts'
import { parseWhole } from './flag.ts'
import type { Content } from './screen.ts'
import type { Call, Options } from './row-type.ts'

const MAX_PAUSE_S = 3_600
/** Moves to the top left and clears everything below. */
const CLEAR_SCREEN = '\u001B[H\u001B[J'

interface Look {
  readonly onWire: unknown
  readonly content: readonly Content[]
}

export function watchOptions(everyS: number): Options {
  return {
    '-w, --watch': 'refresh until Ctrl-C',
    '--every <seconds>': {
      help: 'with --watch: time between refreshes',
      parse: parseWhole(1, MAX_PAUSE_S),
      default: everyS,
    },
  }
}

export async function watch({ session, shell, options }: Call, look: () => Promise<Look>): Promise<void> {
  const { screen, json } = session
  const { watch: isWatching, every = 1 } = options as { watch?: true; every?: number }
  if (isWatching !== true) {
    const { onWire, content } = await look()
    screen.show(onWire, () => content)
    return
  }
  const forever = new AbortController().signal
  for (let before = ''; !forever.aborted; await pause(every * 1_000, forever)) {
    const { onWire, content } = await look()
    const text = json ? JSON.stringify(onWire) : screen.render(content).join('\n')
    if (text === before) continue
    before = text
    if (shell.columns !== undefined && !json) shell.write(CLEAR_SCREEN)
    screen.showLine(onWire, () => text)
  }
}
