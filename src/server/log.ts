/** The log: one JSON object per line on standard output, each key once. */
import os from 'node:os'
import { pino, type DestinationStream, type Logger } from 'pino'

/** Of requests and answers, should a log line ever have their headers. */
const SECRET_HEADERS = ['req.headers.authorization', 'req.headers.cookie', 'res.headers["set-cookie"]']

/** Keys that every line has, or that a request's logger adds. A fact of that name would stand in the line twice. */
const TAKEN = new Set(['level', 'time', 'pid', 'hostname', 'msg', 'reqId'])

export function openLog(level: string, destination?: DestinationStream): Logger {
  const options = {
    level,
    redact: SECRET_HEADERS,
    base: { pid: process.pid, hostname: os.hostname() },
    formatters: { log: keepKeysApart },
  }
  return destination === undefined ? pino(options) : pino(options, destination)
}

/** Facts also come from programs that we run, whose keys are theirs to choose. */
function keepKeysApart(facts: Record<string, unknown>): Record<string, unknown> {
  if (!Object.keys(facts).some((key) => TAKEN.has(key))) return facts
  return Object.fromEntries(Object.entries(facts).map(([key, value]) => [TAKEN.has(key) ? `${key}_` : key, value]))
}
