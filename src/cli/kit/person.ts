/**
 * Asks questions at a terminal, one line at a time. While a line is edited, only this program echoes it, so a hidden
 * answer is one whose echo is discarded.
 */
import { createInterface } from 'node:readline'
import { Writable } from 'node:stream'
import type { Person } from './shell.ts'

export function personAt(input: NodeJS.ReadStream, output: NodeJS.WriteStream): Person {
  return {
    ask: (question, { hidden } = { hidden: false }) =>
      new Promise((resolve) => {
        const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() })
        const lines = createInterface({ input, output: hidden ? nowhere : output, terminal: true })
        // This comes after the interface is open: it must receive Ctrl-C at the question.
        if (hidden) output.write(question)
        let answer: string | undefined
        lines.once('close', () => {
          // The terminal has shown no line end, and the next output belongs on a line of its own.
          if (hidden || answer === undefined) output.write('\n')
          resolve(answer)
        })
        lines.once('SIGINT', () => lines.close())
        lines.question(hidden ? '' : question, (text) => {
          answer = text.trim()
          lines.close()
        })
      }),
  }
}
