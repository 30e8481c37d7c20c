/** The typed advanced options of an order, and the request fields made from them. */
import { formatInstant, parseInstant } from '../../../src/base/instant.ts'
import { optionalNumber, optionalText } from '../../form/read.ts'

export const noAdvanced = {
  /** Parameters of the template, by name. */
  params: {} as Readonly<Record<string, string>>,
  /** Secrets that the template may use. */
  secrets: [] as readonly string[],
  /** `NAME=value`, one per line. */
  env: '',
  start: '',
  onStart: '',
  userData: '',
  diskGb: '',
  shmGb: '',
  registry: '',
  idleMinutes: '',
  idleAction: 'stop',
  stopAt: '',
}
export type Advanced = typeof noAdvanced

/** Paths of fields whose name in the request differs. */
export const advancedPaths = {
  start: 'command',
  registry: 'registryCredentialId',
  idleMinutes: 'idle.afterMinutes',
  idleAction: 'idle.action',
} as const

const idleActions = ['notify', 'stop', 'terminate'] as const

export function advancedOf(typed: Advanced) {
  const env = { ...filledIn(typed.params), ...Object.fromEntries(linesOf(typed.env).map(split)) }
  const start = optionalText(typed.start)
  const afterMinutes = optionalNumber(typed.idleMinutes)
  const stopAt = typed.stopAt === '' ? undefined : parseInstant(typed.stopAt)
  return {
    secrets: typed.secrets.length === 0 ? undefined : [...typed.secrets],
    env: Object.keys(env).length === 0 ? undefined : env,
    command: start === undefined ? undefined : ['/bin/sh', '-c', start],
    onStart: optionalText(typed.onStart),
    userData: optionalText(typed.userData),
    diskGb: optionalNumber(typed.diskGb),
    shmGb: optionalNumber(typed.shmGb),
    registryCredentialId: optionalText(typed.registry),
    idle:
      afterMinutes === undefined
        ? undefined
        : { afterMinutes, action: idleActions.find((one) => one === typed.idleAction) ?? 'stop' },
    stopAt: stopAt === undefined ? undefined : formatInstant(stopAt),
  }
}

/** Checks that the schema cannot express. */
export function checkAdvanced({ env, stopAt }: Advanced, nowMs: number) {
  const wrong = linesOf(env).find((line) => !line.includes('='))
  const at = stopAt === '' ? undefined : parseInstant(stopAt)
  const isPast = stopAt !== '' && (at === undefined || at <= nowMs)
  return {
    env: wrong === undefined ? undefined : `Write NAME=value on each line: ${wrong.slice(0, 40)}`,
    stopAt: isPast ? 'Choose a time in the future' : undefined,
  }
}

/** The number of options that differ from the default, for the heading. */
export function countAdvanced(typed: Advanced): number {
  const options = { ...advancedOf(typed), env: optionalText(typed.env), secrets: undefined }
  return Object.values(options).filter((value) => value !== undefined).length
}

function linesOf(text: string): string[] {
  return text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.startsWith('#'))
}

function split(line: string): [string, string] {
  const at = line.indexOf('=')
  return at < 0 ? [line, ''] : [line.slice(0, at).trim(), line.slice(at + 1)]
}

function filledIn(params: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(params).filter(([, value]) => value.trim() !== ''))
}
