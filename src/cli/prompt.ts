/**
 * What a model is asked: the words of the command line, or the standard input where it is piped or `-` stands for it.
 * The input is read as a stream: a pipe whose writer is slow cannot be read in one go.
 */
import { isatty } from 'node:tty'
import { limits } from '../base/limits.ts'
import { CliError, exitCodes } from './shell.ts'

const INPUT = '-'
const STANDARD_INPUT = 0

/** `example`: the next step when there is nothing to ask. */
export async function readPrompt(words: readonly string[], example: string): Promise<string> {
  const parts: string[] = []
  for (const word of words.length === 0 && !isatty(STANDARD_INPUT) ? [INPUT] : words) {
    parts.push(word === INPUT ? await readStandardInput() : word)
  }
  // Only between words a space is wanted; what was piped stands on lines of its own.
  const text = parts.join(words.includes(INPUT) ? '\n\n' : ' ').trim()
  if (text !== '') return text
  throw new CliError(exitCodes.usage, words.length === 0 ? 'There is no text.' : 'The text is empty.', [
    `Such as: ${example}`,
  ])
}

export async function readStandardInput(): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of process.stdin) {
    chunks.push(chunk as Buffer)
    bytes += (chunk as Buffer).length
    if (bytes > limits.inferenceBodyBytes) {
      throw new CliError(exitCodes.usage, 'The standard input is longer than any request may be: 16 MiB.')
    }
  }
  return Buffer.concat(chunks).toString()
}
