/** Files with one JSON object. The server judges its fields. */
import { CliError, exitCodes, type Shell } from './shell.ts'

export function readJsonFile(shell: Shell, file: string, example?: string): Record<string, unknown> {
  const text = file === '-' ? shell.readInput() : shell.readFile(file)
  if (text === undefined) throw new CliError(exitCodes.usage, `Cannot read ${file}.`)
  const json = parseJson(text)
  if (typeof json === 'object' && json !== null && !Array.isArray(json)) return json as Record<string, unknown>
  throw new CliError(exitCodes.usage, `${file} does not hold a JSON object.`, example === undefined ? [] : [example])
}

export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
