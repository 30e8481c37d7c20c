/** A progress bar: one line of a terminal that is redrawn. */
import { printable } from './screen.ts'

const BAR_CHARS = 30
/** Moves to the start of the line and clears it. */
const CLEAR_LINE = '\r\u001B[K'

export interface Bar {
  /** `share` is from 0 to 1. */
  draw(share: number, text: string): void
  /** A text without a bar. */
  write(text: string): void
  clear(): void
}

export const noBar: Bar = { draw: () => {}, write: () => {}, clear: () => {} }

export function makeBar(print: (text: string) => void): Bar {
  let isDrawn = false
  const write = (text: string): void => {
    isDrawn = true
    print(`${CLEAR_LINE}${printable(text)}`)
  }
  return {
    draw: (share, text) => {
      const filled = Math.round(Math.min(1, Math.max(0, share)) * BAR_CHARS)
      write(`${'█'.repeat(filled)}${'░'.repeat(BAR_CHARS - filled)} ${text}`)
    },
    write,
    clear: () => {
      if (isDrawn) print(CLEAR_LINE)
    },
  }
}
