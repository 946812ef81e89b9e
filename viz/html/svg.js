// A stand-in for a canvas that writes what is drawn on it as SVG: only what viewer.js uses.
'use strict';
class SvgCanvas {
  // `measure`: a real context, which knows how wide words are; `patterns`: a Map from fill styles
  // to the names of patterns in `defs`.
  constructor(measure, patterns, defs) {
    Object.assign(this, {measure, patterns, defs, out: [], path: [], clips: 0, open: [], saved: []});
    Object.assign(this, {fillStyle: '#000', strokeStyle: '#000', lineWidth: 1, globalAlpha: 1, font: '10px sans-serif',
                         textAlign: 'left'});
  }
  number(x) { return String(Math.round(x * 100) / 100); }
  escaped(s) { return String(s).replace(/[&<>"]/g, c => ({'&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;'})[c]); }
  colour(style) { return this.patterns.has(style) ? `url(#${this.patterns.get(style)})` : this.escaped(style); }
  element(name, attributes, inside) {
    const list = Object.entries(attributes).map(([k, v]) => ` ${k}="${typeof v === 'number' ? this.number(v) : v}"`).join('');
    const alpha = this.globalAlpha < 1 ? ` opacity="${this.number(this.globalAlpha)}"` : '';
    return `<${name}${list}${alpha}` + (inside === undefined ? '/>' : `>${inside}</${name}>`);
  }
  add(...what) { this.out.push(this.element(...what)); }
  setTransform() {}
  fillRect(x, y, width, height) {
    if (width > 0 && height > 0) this.add('rect', {x, y, width, height, fill: this.colour(this.fillStyle)});
  }
  strokeRect(x, y, width, height) {
    this.add('rect', {x, y, width: Math.max(width, 0), height: Math.max(height, 0), fill: 'none',
                      stroke: this.colour(this.strokeStyle), 'stroke-width': this.lineWidth});
  }
  measureText(text) {
    this.measure.font = this.font;
    return this.measure.measureText(text);
  }
  fillText(text, x, y) {
    const anchor = {left: 'start', center: 'middle', right: 'end'}[this.textAlign];
    this.add('text', {x, y, 'text-anchor': anchor, 'font-size': parseFloat(this.font.replace('bold ', '')),
                      ...(this.font.startsWith('bold') ? {'font-weight': 'bold'} : {}), fill: this.colour(this.fillStyle)}, this.escaped(text));
  }
  beginPath() { this.path = []; }
  rect(x, y, width, height) { this.box = {x, y, width, height}; }
  moveTo(...at) { this.path.push('M' + at.map(this.number).join(' ')); }
  lineTo(...at) { this.path.push('L' + at.map(this.number).join(' ')); }
  bezierCurveTo(...at) { this.path.push('C' + at.map(this.number).join(' ')); }
  stroke() {
    this.add('path', {d: this.path.join(''), fill: 'none', stroke: this.colour(this.strokeStyle), 'stroke-width': this.lineWidth});
  }
  fill() { this.add('path', {d: this.path.join('') + 'Z', fill: this.colour(this.fillStyle)}); }
  save() { this.saved.push(0); }
  clip() {
    const id = 'clip' + ++this.clips, {x, y, width, height} = this.box;
    this.out.push(`<clipPath id="${id}"><rect x="${this.number(x)}" y="${this.number(y)}" width="${this.number(width)}" ` +
                  `height="${this.number(height)}"/></clipPath><g clip-path="url(#${id})">`);
    ++this.saved[this.saved.length - 1];
  }
  restore() { for (let n = this.saved.pop(); n > 0; --n) this.out.push('</g>'); }
  svg(width, height, title) {
    return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" ` +
        `font-family="Helvetica, Arial, 'Liberation Sans', sans-serif" role="img">\n${this.element('title', {}, this.escaped(title))}\n` +
        `<defs>${this.defs}</defs>\n${this.out.join('\n')}\n</svg>\n`;
  }
}
