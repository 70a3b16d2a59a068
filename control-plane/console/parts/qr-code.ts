import { type Html, html } from '../html.ts';

/** ISO/IEC 18004 asks for four light modules around a symbol. */
const QUIET_MODULES = 4;

/** A QR code as an inline drawing, readable in the dark theme as well; `label` says what it holds. */
export async function qrCode(text: string, label: string): Promise<Html> {
  // Loaded where somebody signs up: its sixty modules would be in every control plane's memory.
  const { create } = await import('qrcode');
  const { modules } = create(text, { errorCorrectionLevel: 'M' });
  const { size } = modules;
  let path = '';
  for (let y = 0; y < size; y++) {
    for (let x = 0; x < size; x++) {
      if (modules.get(y, x) === 1) path += `M${x + QUIET_MODULES} ${y + QUIET_MODULES}h1v1h-1z`;
    }
  }
  const side = size + 2 * QUIET_MODULES;
  return html`<div class="qr">
<svg viewBox="0 0 ${side} ${side}" role="img" aria-label="${label}" shape-rendering="crispEdges">
<path d="${path}" fill="#000"/></svg></div>`;
}
