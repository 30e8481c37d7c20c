/** The checks behind `berth ledger verify`: they read the whole ledger on one snapshot. */
import type { NanoUsd } from '../../base/money.ts'
import { ok, type Result } from '../../contract/result.ts'
import {
  ledgerChecks,
  readHouse,
  readWholeLedger,
  runCheck,
  saveLedgerCheck,
  type Finding,
} from '../../store/ledger/ledger-verify.ts'
import type { App } from '../app.ts'

const MAX_FINDINGS = 100

export interface LedgerVerdict {
  readonly ok: boolean
  /** Checked rows and violations per check. */
  readonly checks: Array<{ name: string; rows: number; findings: number }>
  /** The first findings, up to a limit. */
  readonly findings: Finding[]
  /** Balance of each of the house's ledger accounts. */
  readonly house: ReadonlyMap<string, NanoUsd>
}

/** Verifies the ledger, and stores the time and the result. */
export async function verifyLedger(app: App): Promise<Result<LedgerVerdict>> {
  const startedAt = performance.now()
  const verdict = await recount(app)
  if (verdict.ok) {
    const findings = verdict.value.checks.reduce((sum, check) => sum + check.findings, 0)
    await saveLedgerCheck(app.database, { tookMs: Math.round(performance.now() - startedAt), findings })
  }
  return verdict
}

async function recount(app: App): Promise<Result<LedgerVerdict>> {
  return readWholeLedger(app.database, async (db) => {
    const checks: LedgerVerdict['checks'] = []
    const findings: Finding[] = []
    for (const check of ledgerChecks) {
      const outcome = await runCheck(db, check, MAX_FINDINGS)
      checks.push({ name: check.name, rows: outcome.rows, findings: outcome.total })
      findings.push(...outcome.findings.slice(0, MAX_FINDINGS - findings.length))
    }
    return ok({ ok: checks.every((check) => check.findings === 0), checks, findings, house: await readHouse(db) })
  })
}
