/** Not written yet. */
import { Page } from '../ui/page.tsx'

export function SupplyPage() {
  return <Page title="Supply">…</Page>
}
