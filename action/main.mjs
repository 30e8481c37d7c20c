/**
 * Rents a machine, runs the command, and leaves the end to `post.mjs`. The label of the machine is written to the state
 * of the step before the order, so `post.mjs` finds the machine also when this program died right after it.
 */
import { randomBytes } from 'node:crypto'
import { ActionError, call, input, mask, reportFailure, server, tell } from './api.mjs'
import { runCommand } from './command.mjs'

const POLL_MS = 2_000
const HOUR_MS = 3_600_000

try {
  const at = server()
  mask(at.key)
  const order = readOrder()
  const command = input('run', { isRequired: true })
  tell('GITHUB_STATE', 'label', order.label)
  const created = await call(at, 'POST', '/v2/rentals', { body: order, headers: { 'Idempotency-Key': order.label } })
  tell('GITHUB_STATE', 'rental', created.name)
  tell('GITHUB_OUTPUT', 'rental', created.name)
  process.stdout.write(`Rented ${created.name} for $${created.pricePerHourUsd} per hour.\n`)
  const rental = await untilRunning(at, created.name, Date.parse(order.autoTerminateAt))
  const code = await runCommand(at, rental.id, command)
  tell('GITHUB_OUTPUT', 'exit-code', String(code))
  if (code !== 0) throw new ActionError(`The command ended with exit code ${code}.`)
} catch (error) {
  reportFailure(error)
  process.exitCode = 1
}

function readOrder() {
  const [gpu, machine, image] = [input('gpu'), input('machine'), input('image')]
  if ((gpu === '') === (machine === '')) throw new ActionError('Give either the input gpu or the input machine.')
  const limit = input('spending-limit', { isRequired: true })
  if (!/^\d{1,9}(\.\d{1,9})?$/.test(limit) || Number(limit) === 0) {
    throw new ActionError('The input spending-limit must be an amount in USD, such as 5.')
  }
  const hours = Number(input('hours', { isRequired: true }))
  if (!(hours > 0 && hours <= 720)) throw new ActionError('The input hours must be a number up to 720.')
  const gpus = Number(input('gpus') || '1')
  if (!Number.isInteger(gpus) || gpus < 1) throw new ActionError('The input gpus must be a whole number.')
  const { GITHUB_RUN_ID = 'local', GITHUB_RUN_ATTEMPT = '1' } = process.env
  return {
    kind: 'container',
    ...(machine === '' ? { gpuModel: gpu } : { machineId: machine }),
    gpuCount: gpus,
    ...(image === '' ? {} : { image: readImage(image) }),
    env: readVariables(input('env')),
    label: `github-${GITHUB_RUN_ID}-${GITHUB_RUN_ATTEMPT}-${randomBytes(6).toString('hex')}`,
    spendingLimitUsd: limit,
    autoTerminateAt: new Date(Date.now() + hours * HOUR_MS).toISOString(),
  }
}

/** A registry may have a port, so only a colon after the last slash starts a tag. */
function readImage(image) {
  const at = image.lastIndexOf(':')
  return at > image.lastIndexOf('/') ? { name: image.slice(0, at), tag: image.slice(at + 1) } : { name: image }
}

function readVariables(text) {
  const lines = text.split('\n').filter((line) => line.trim() !== '')
  return Object.fromEntries(
    lines.map((line) => {
      const [, name, value] = /^\s*([A-Za-z_]\w*)=(.*)$/.exec(line) ?? []
      if (name === undefined) throw new ActionError('Each line of the input env must be NAME=value.')
      return [name, value]
    }),
  )
}

async function untilRunning(at, name, endsAt) {
  let shown = ''
  while (Date.now() < endsAt) {
    const rental = await call(at, 'GET', `/v2/rentals/${name}`)
    const now = `${rental.state}${rental.statusMessage === null ? '' : `: ${rental.statusMessage}`}`
    if (now !== shown) process.stdout.write(`${name}: ${now}\n`)
    shown = now
    if (rental.state === 'Running') return rental
    if (!['Pending', 'Unknown'].includes(rental.state)) throw new ActionError(`The machine is ${now}.`)
    await new Promise((resolve) => setTimeout(resolve, POLL_MS))
  }
  throw new ActionError('The machine did not start before its end.')
}
