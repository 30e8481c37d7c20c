/**
 * Hints on the sign-in page of a trial server. The browser that opens the printed link (demo-link.ts) gets the demo key,
 * and no other. The paths of the key files are shown only to browsers on the server's own machine: never behind a proxy
 * or under another host name.
 */
import type { FastifyRequest } from 'fastify'
import type { ConsoleWelcome } from '../../contract/session-body.ts'
import { readPrivateFile, writePrivateFile } from '../data/data-folder.ts'
import type { DemoLink } from './demo-link.ts'
import { DEMO_KEY, OPERATOR_KEY } from '../data/first-run.ts'

/** This file exists once somebody has signed in to the demo account. */
const DEMO_TAKEN = 'demo.taken'
const DEMO_ACCOUNT = 'demo'

export interface WelcomeOptions {
  readonly dataDir: string
  /** The data folder, relative to the server's working directory. */
  readonly shownDir: string
  /** False: not a trial server; show nothing. */
  readonly isTrial: boolean
  /** undefined: none, or somebody has signed in with the demo key already. */
  readonly demoLink: DemoLink | undefined
  readonly host: string
  readonly trustProxy: boolean
}

export function welcomeFor(options: WelcomeOptions, request: FastifyRequest): ConsoleWelcome {
  if (!options.isTrial || options.trustProxy || !isLoopbackName(options.host) || !isLocal(request)) return {}
  return filesOf(options)
}

/** undefined: the token is wrong, used or expired. */
export function openDemoLink(options: WelcomeOptions, token: string): ConsoleWelcome | undefined {
  const key = readPrivateFile(options.dataDir, DEMO_KEY)?.trim()
  if (key === undefined || isDemoTaken(options.dataDir) || options.demoLink?.redeem(token) !== true) return undefined
  return { ...filesOf(options), demoKey: key }
}

export function isDemoTaken(dataDir: string): boolean {
  return readPrivateFile(dataDir, DEMO_TAKEN) !== undefined
}

function filesOf({ dataDir, shownDir }: WelcomeOptions): ConsoleWelcome {
  return {
    ...(readPrivateFile(dataDir, DEMO_KEY) === undefined ? {} : { keyFile: `${shownDir}/${DEMO_KEY}` }),
    ...(readPrivateFile(dataDir, OPERATOR_KEY) === undefined ? {} : { operatorKeyFile: `${shownDir}/${OPERATOR_KEY}` }),
  }
}

/** Call at every sign-in. */
export function noteDemoTaken({ dataDir, isTrial }: WelcomeOptions, accountId: string): void {
  if (!isTrial || accountId !== DEMO_ACCOUNT) return
  if (!isDemoTaken(dataDir)) {
    writePrivateFile(dataDir, DEMO_TAKEN, 'Somebody has signed in to the console with the demo key.\n')
  }
}

const proxyHeaders = ['forwarded', 'x-forwarded-for', 'x-forwarded-host', 'x-forwarded-proto', 'x-real-ip', 'via']

function isLocal({ raw }: FastifyRequest): boolean {
  if (proxyHeaders.some((name) => raw.headers[name] !== undefined)) return false
  // Browsers use HTTP/1.1 without TLS; some proxies use HTTP/1.0.
  if (raw.httpVersion !== '1.1') return false
  return isLoopbackAddress(raw.socket.remoteAddress ?? '') && isLoopbackName(nameOf(raw.headers.host ?? ''))
}

function nameOf(host: string): string {
  return host.replace(/:\d{1,5}$/, '').replace(/^\[(.*)\]$/, '$1')
}

function isLoopbackName(name: string): boolean {
  return name.toLowerCase() === 'localhost' || name === '127.0.0.1' || name === '::1'
}

function isLoopbackAddress(address: string): boolean {
  return address === '::1' || /^(::ffff:)?127(\.\d{1,3}){3}$/.test(address)
}
