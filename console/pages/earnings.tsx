/** Not written yet. */
import { Page } from '../ui/page.tsx'

export function EarningsPage() {
  return <Page title="Earnings">…</Page>
}
