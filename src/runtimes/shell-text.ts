/** Texts for shells: quoted values, environments and scripts that write files. */
import type { Program } from '../contract/agent.ts'
import { isReservedVariable } from '../contract/workload.ts'

export function shellQuote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`
}

/** Lines that export the order's variables, without those that are ours. */
export function exportLines(env: Program['env']): string {
  return variablesOf(env)
    .map(([name, value]) => `export ${name}=${shellQuote(value)}\n`)
    .join('')
}

/** Lines for /etc/environment, which knows neither escapes nor line breaks: such values are left out. */
export function environmentLines(env: Program['env']): string {
  return variablesOf(env)
    .flatMap(([name, value]) => {
      const quote = ['"', "'"].find((one) => !value.includes(one))
      return value.includes('\n') || quote === undefined ? [] : [`${name}=${quote}${value}${quote}\n`]
    })
    .join('')
}

function variablesOf(env: Program['env']): Array<[string, string]> {
  return Object.entries(env).filter(([name]) => !isReservedVariable(name))
}

const LINE_CHARS = 76

/** Base64 in lines that every decoder accepts. */
export function encodedLines(text: string): string {
  return Buffer.from(text)
    .toString('base64')
    .replaceAll(new RegExp(`.{${LINE_CHARS}}`, 'g'), '$&\n')
}

/** A shell function that writes a file. Failures are printed, and the other files are still written. */
export const PUT_FUNCTION = String.raw`
put() {
  (umask 022; mkdir -p "$(dirname "$1")" 2> /dev/null)
  if [ -d "$1" ]; then echo "berth: $1 is a folder"; base64 -d > /dev/null; return; fi
  { base64 -d > "$1.berth-new" && chmod "$2" "$1.berth-new" && mv -f "$1.berth-new" "$1"; } 2> /dev/null ||
    echo "berth: cannot write $1"
}
`

export function putFile(path: string, mode: string, content: string): string {
  return `put ${shellQuote(path)} ${mode} << 'END'\n${encodedLines(content)}\nEND`
}
