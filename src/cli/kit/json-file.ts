/** Files with one JSON object. The server validates the fields. */
import { CliError, exitCodes, type Shell } from './shell.ts'
import { readTextFile } from './text-file.ts'

export function readJsonFile(shell: Shell, file: string, example?: string): Record<string, unknown> {
  const json = parseJson(readTextFile(shell, file))
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
