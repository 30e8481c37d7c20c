/** The log: one JSON object per line on standard output, without duplicate keys. */
import os from 'node:os'
import { pino, type DestinationStream, type Logger } from 'pino'

const SECRET_HEADERS = [
  'req.headers.authorization',
  'req.headers["x-api-key"]',
  'req.headers.cookie',
  'res.headers["set-cookie"]',
]

/** Keys that pino or a request's logger adds: a field with one of these names would appear twice. */
const RESERVED_KEYS = new Set(['level', 'time', 'pid', 'hostname', 'msg', 'reqId'])

export function openLog(level: string, destination?: DestinationStream): Logger {
  const options = {
    level,
    redact: SECRET_HEADERS,
    base: { pid: process.pid, hostname: os.hostname() },
    formatters: { log: renameReservedKeys },
  }
  return destination === undefined ? pino(options) : pino(options, destination)
}

/** Fields can come from child processes, which choose their own names. */
function renameReservedKeys(facts: Record<string, unknown>): Record<string, unknown> {
  if (!Object.keys(facts).some((key) => RESERVED_KEYS.has(key))) return facts
  return Object.fromEntries(
    Object.entries(facts).map(([key, value]) => [RESERVED_KEYS.has(key) ? `${key}_` : key, value]),
  )
}
