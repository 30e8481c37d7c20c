/** Compares what drivers show with the database, over HTTP, for operators. */
import { ok } from '../../contract/result.ts'
import { compareDriver } from '../../app/supply/driver-audit.ts'
import type { Driver } from '../../drivers/driver.ts'
import type { App } from '../../app/app.ts'
import type { Handlers } from '../http/handler.ts'

const MAX_ERROR_CHARS = 500

export const driverAuditHandlers = {
  auditEngines: async (app) => {
    const engines = await Promise.all([...app.drivers.values()].map((driver) => auditDriver(app, driver)))
    return ok({ ok: engines.every((engine) => engine.reachable && engine.findings.length === 0), engines })
  },
} satisfies Partial<Handlers>

async function auditDriver(app: App, driver: Driver) {
  try {
    const { machines, volumes, orphans, orphanVolumes, missing, missingVolumes } = await compareDriver(
      app,
      driver,
      () => AbortSignal.timeout(driver.callTimeoutMs),
    )
    return {
      driver: driver.id,
      reachable: true,
      error: null,
      machines,
      volumes,
      findings: [
        ...[...orphans, ...orphanVolumes].map((orphan) => ({
          check: orphan.why,
          subject: orphan.tag,
          detail: `${orphan.externalId} at the provider`,
        })),
        ...missing.map((row) => ({
          check: 'not_shown',
          subject: `rental:${row.rentalId}`,
          detail: `${row.status} in the database`,
        })),
        ...missingVolumes.map((row) => ({
          check: 'not_shown',
          subject: `volume:${row.volumeId}`,
          detail: `${row.state} in the database`,
        })),
      ],
    }
  } catch (error) {
    app.warn?.(error, `the audit could not reach the provider of ${driver.id}`)
    return {
      driver: driver.id,
      reachable: false,
      error: `The provider did not answer: ${error instanceof Error ? error.message : String(error)}`.slice(
        0,
        MAX_ERROR_CHARS,
      ),
      machines: 0,
      volumes: 0,
      findings: [],
    }
  }
}
