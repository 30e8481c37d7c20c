/** `berth audit`: what the engines show, compared with the books. */
import type { Command } from 'commander'
import { findingLines } from './ledger.ts'
import { table, type Cell } from './screen.ts'
import type { Run } from './session.ts'
import { exitCodes } from './shell.ts'

const columns = [
  { title: 'ENGINE' },
  { title: 'ANSWERS' },
  { title: 'MACHINES', right: true },
  { title: 'VOLUMES', right: true },
  { title: 'FOUND' },
] as const

export function addEngineCommands(program: Command, run: Run): void {
  program
    .command('audit')
    .description('compare engines and books; 1 when they differ')
    .action(
      run('operator', async ({ client, screen }) => {
        const { ok, engines } = await client.call('auditEngines')
        const findings = engines.flatMap((engine) => engine.findings)
        const rows = engines.map((engine): Cell[] => [
          engine.driver,
          engine.reachable ? 'yes' : { text: engine.error ?? 'no', style: 'red' },
          String(engine.machines),
          String(engine.volumes),
          engine.findings.length === 0
            ? { text: 'nothing', style: 'green' }
            : { text: String(engine.findings.length), style: 'red' },
        ])
        screen.show({ ok, engines }, () => [
          ...(rows.length === 0 ? ['This server has no engines (BERTH_ENGINES).'] : table(screen, columns, rows)),
          '',
          ...findingLines(screen, findings, findings.length),
          ok
            ? screen.paint('green', 'Engines and books agree.')
            : screen.paint('red', 'Engines and books differ. Nothing was changed.'),
        ])
        return ok ? exitCodes.ok : exitCodes.failed
      }),
    )
}
