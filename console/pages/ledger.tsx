/** Not written yet. */
import { Page } from '../ui/page.tsx'

export function LedgerPage() {
  return <Page title="Ledger">…</Page>
}
