/**
 * What the sign-in page may say to whoever sits at the machine of a server that was just tried out: the demo account's
 * key until it has been used to sign in, and after that only in which file it is. So a first visit needs no key to be
 * copied. All of it is for that machine alone; any sign of a proxy or of another name for this server, and nothing is
 * said: a page of another site can give this address a name of its own, and ask under that.
 */
import type { FastifyRequest } from 'fastify'
import type { ConsoleWelcome } from '../contract/session.ts'
import { readPrivateFile, writePrivateFile } from './data-folder.ts'
import { DEMO_KEY, OPERATOR_KEY } from './first-run.ts'

/** There: somebody has signed in as the demo account. */
const DEMO_TAKEN = 'demo.taken'
const DEMO_ACCOUNT = 'demo'

export interface WelcomeOptions {
  readonly dataDir: string
  /** The data folder as a person finds it from where the server was started. */
  readonly shownDir: string
  /** False: this server is no trial on embedded defaults, and says nothing to anybody. */
  readonly handsOverDemoKey: boolean
  /** What the server listens on. */
  readonly host: string
  readonly trustProxy: boolean
}

export function welcomeFor(options: WelcomeOptions, request: FastifyRequest): ConsoleWelcome {
  if (!options.handsOverDemoKey || options.trustProxy || !isLoopbackName(options.host) || !isLocal(request)) return {}
  const { dataDir, shownDir } = options
  const key = readPrivateFile(dataDir, DEMO_KEY)?.trim()
  const isTaken = readPrivateFile(dataDir, DEMO_TAKEN) !== undefined
  return {
    ...(key === undefined || isTaken ? {} : { demoKey: key }),
    ...(key === undefined ? {} : { keyFile: `${shownDir}/${DEMO_KEY}` }),
    ...(readPrivateFile(dataDir, OPERATOR_KEY) === undefined ? {} : { operatorKeyFile: `${shownDir}/${OPERATOR_KEY}` }),
  }
}

/** To be told of every sign-in. */
export function noteDemoTaken({ dataDir, handsOverDemoKey }: WelcomeOptions, accountId: string): void {
  if (!handsOverDemoKey || accountId !== DEMO_ACCOUNT) return
  if (readPrivateFile(dataDir, DEMO_TAKEN) === undefined) {
    writePrivateFile(dataDir, DEMO_TAKEN, 'Somebody has signed in to the console with the demo key.\n')
  }
}

const proxyHeaders = ['forwarded', 'x-forwarded-for', 'x-forwarded-host', 'x-forwarded-proto', 'x-real-ip', 'via']

function isLocal({ raw }: FastifyRequest): boolean {
  if (proxyHeaders.some((name) => raw.headers[name] !== undefined)) return false
  // What a browser never speaks, and some proxies do to what is behind them.
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
