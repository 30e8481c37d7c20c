/** The promise: a rental is ready once its application answers, and one slow answer changes nothing. */
import { pino } from 'pino'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { listEvents } from '../../store/notice/event.ts'
import { readPortHealth } from '../../store/rental/port.ts'
import { findRental } from '../../store/rental/rental.ts'
import { openPortHealth, type PortHealth } from './port-health.ts'
import { PRIVATE, startPortLab, type PortLab } from '../../../test/harness/port-lab.ts'

const NEVER_MS = 2_147_483_647

let lab: PortLab
let health: PortHealth

beforeAll(async () => {
  lab = await startPortLab()
  health = openPortHealth({ app: lab.app, links: lab.links, log: pino({ level: 'silent' }), everyMs: NEVER_MS })
})
afterAll(async () => {
  await health.close()
  await lab.close()
})

async function checkWith(status: number | 'refused') {
  lab.connect = status === 'refused' ? (stream) => void stream.destroy() : undefined
  lab.serve = (_, response) => void response.writeHead(status as number).end()
  lab.clock.advance(5_000)
  await health.check()
  const { db } = lab.database
  const rental = await findRental(db, lab.rentalId)
  if (rental === undefined) throw new Error('no rental')
  const subject = { kind: 'rental', id: String(lab.rentalId) } as const
  const events = await listEvents(db, lab.owner.accountId, { subject, limit: 10 })
  return { healthy: (await readPortHealth(db, rental)).get(PRIVATE), last: events[0]?.type }
}

test('a port is healthy with its first answer below 400, and not after three failures in a row', async () => {
  expect(await checkWith('refused')).toEqual({ healthy: false, last: undefined })
  expect(await checkWith(503)).toEqual({ healthy: false, last: undefined })
  lab.heads.length = 0
  expect(await checkWith(302)).toEqual({ healthy: true, last: 'rental.ready' })
  expect(lab.heads).toMatchObject([{ url: '/health', headers: { host: `127.0.0.1:${PRIVATE}` } }])
  expect(await checkWith(500)).toEqual({ healthy: true, last: 'rental.ready' })
  expect(await checkWith('refused')).toEqual({ healthy: true, last: 'rental.ready' })
  // An answer in between starts the count again.
  expect(await checkWith(200)).toEqual({ healthy: true, last: 'rental.ready' })
  await checkWith(500)
  await checkWith(500)
  expect(await checkWith(500)).toEqual({ healthy: false, last: 'rental.not_ready' })
  expect(await checkWith(200)).toEqual({ healthy: true, last: 'rental.ready' })
})

test('nothing is known about a host that is not connected', async () => {
  await lab.agent.end()
  expect(await checkWith(200)).toEqual({ healthy: true, last: 'rental.ready' })
})
