/**
 * Somebody in front of a terminal, asked a line at a time. A hidden answer is read as any other, with what would be
 * shown thrown away: the terminal itself shows nothing while a line is edited here.
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
        // Only now: Ctrl-C at the question must reach the interface.
        if (hidden) output.write(question)
        let answer: string | undefined
        lines.once('close', () => {
          // Where the terminal shows no line end of its own, the next words would stand behind the question.
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
