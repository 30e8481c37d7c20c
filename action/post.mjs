/** Terminates the machine of `main.mjs`: after success, failure and cancellation. A runner that died cannot; the end time of the order does it then. */
import { call, reportFailure, server } from './api.mjs'

try {
  const { STATE_label: label = '', STATE_rental: name = '' } = process.env
  // Nothing was ordered.
  if (label !== '') await terminateAll(server(), label, name)
} catch (error) {
  reportFailure(error)
  process.exitCode = 1
}

async function terminateAll(at, label, name) {
  const names = name === '' ? await namesOf(at, label) : [name]
  for (const one of names) {
    const ended = await call(at, 'DELETE', `/v2/rentals/${encodeURIComponent(one)}?reason=GitHub%20Actions`)
    process.stdout.write(`Terminated ${one}. It cost $${ended.costSoFarUsd}.\n`)
  }
}

/** The main step ended between its order and the answer. */
async function namesOf(at, label) {
  const { rentals } = await call(at, 'GET', `/v2/rentals?q=${encodeURIComponent(label)}`)
  return rentals.filter((one) => one.label === label).map((one) => one.name)
}
