/** Looking once, or with --watch again and again until Ctrl-C: then it is shown anew when it has changed. */
import type { Command } from 'commander'
import { pause } from '../client/pause.ts'
import type { Session } from './session.ts'
import type { Shell } from './shell.ts'
import { parseWhole } from './supply.ts'

const LONGEST_WAIT_S = 3_600
/** Where the terminal begins again, and everything below it is gone. */
const FROM_THE_TOP = '\u001B[H\u001B[J'

export interface WatchOptions {
  readonly watch?: true
  readonly every: number
}

interface Look {
  readonly onWire: unknown
  readonly lines: string[]
}

export function addWatchOptions(command: Command, everyS: number): Command {
  return command
    .option('-w, --watch', 'look again and again, until Ctrl-C')
    .option('--every <s>', 'with --watch: seconds between two looks', parseWhole(1, LONGEST_WAIT_S), everyS)
}

export async function watch(
  { screen, json }: Session,
  shell: Shell,
  options: WatchOptions,
  look: () => Promise<Look>,
): Promise<void> {
  if (options.watch !== true) {
    const { onWire, lines } = await look()
    screen.show(onWire, () => lines)
    return
  }
  const forEver = new AbortController().signal
  for (let before = ''; !forEver.aborted; await pause(options.every * 1_000, forEver)) {
    const { onWire, lines } = await look()
    const text = json ? JSON.stringify(onWire) : lines.join('\n')
    if (text === before) continue
    before = text
    if (shell.columns !== undefined && !json) shell.write(FROM_THE_TOP)
    screen.showLine(onWire, () => text)
  }
}
