/**
 * A prompt: the words of the command line, or the standard input if it is piped or named by `-`. The input is read as a
 * stream, because a pipe with a slow writer cannot be read in one go.
 */
import { isatty } from 'node:tty'
import { limits } from '../../base/limits.ts'
import { CliError, exitCodes } from './shell.ts'

const INPUT = '-'
const STANDARD_INPUT = 0

/** `example` is shown when there is no prompt. */
export async function readPrompt(words: readonly string[], example: string): Promise<string> {
  const parts: string[] = []
  for (const word of words.length === 0 && !isatty(STANDARD_INPUT) ? [INPUT] : words) {
    parts.push(word === INPUT ? await readStandardInput() : word)
  }
  // Words are joined by spaces; piped text becomes a paragraph of its own.
  const text = parts.join(words.includes(INPUT) ? '\n\n' : ' ').trim()
  if (text !== '') return text
  throw new CliError(exitCodes.usage, words.length === 0 ? 'No text was given.' : 'The text is empty.', [
    `Example: ${example}`,
  ])
}

export async function readStandardInput(): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of process.stdin) {
    chunks.push(chunk as Buffer)
    bytes += (chunk as Buffer).length
    if (bytes > limits.inferenceBodyBytes) {
      throw new CliError(exitCodes.usage, 'The standard input is larger than 16 MiB, the limit of a request.')
    }
  }
  return Buffer.concat(chunks).toString()
}
