// A customer's way through the page, in a real browser: `node .ci/browser.mjs <folder with node_modules> <screenshots>`.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";

const [modules, pictures] = process.argv.slice(2).map((path) => resolve(path));
const require = createRequire(join(modules, "package.json"));
const { chromium } = require("playwright-core");
const AXE = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
mkdirSync(pictures, { recursive: true });

const target = process.env.CARGO_TARGET_DIR ?? "target";
const server = spawn(join(target, "debug/svc-server"), ["--listen", "127.0.0.1:0"], { stdio: ["ignore", "pipe", "ignore"] });
const lines = createInterface({ input: server.stdout });
const base = await new Promise((found) => lines.on("line", (line) => line.match(/http:\/\/\S+/) && found(line.match(/http:\/\/\S+/)[0])));

const post = async (path, body, token) => {
  const headers = { "content-type": "application/json", ...(token && { authorization: `Bearer ${token}` }) };
  const answer = await fetch(base + path, { method: "POST", headers, body: JSON.stringify(body) });
  assert.equal(answer.status, 200, await answer.clone().text());
  return answer.json();
};
const { access_token: token } = await post("/v1/login", { client_id: "parceiro-demo", client_secret: "segredo-demo" });
const proposal = (name) => JSON.parse(readFileSync(`svc-core/tests/proposals/valid/${name}.json`, "utf8"));
let count = 0;
/** The link of a new proposal. */
const link = async (name = "02_tipica_12x", nome) => {
  const body = { ...proposal(name), id_proposta_parceiro: `B-${count++}`, webhook_url: "http://127.0.0.1:9/" };
  if (nome) body.cliente.nome = nome;
  return `${base}/confirmar/${(await post("/v1/propostas", body, token)).id_proposta_svc}`;
};
const status = async (url) => {
  const id = url.split("/").pop();
  const answer = await fetch(`${base}/v1/propostas/${id}`, { headers: { authorization: `Bearer ${token}` } });
  return (await answer.json()).status;
};

const browser = await chromium.launch({
  executablePath: "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});
const wrong = [];
/** A page of this width; what its console says of faults is kept. */
const open = async (url, width = 360, more = {}) => {
  const context = await browser.newContext({ viewport: { width, height: 740 }, locale: "pt-BR", bypassCSP: false, ...more });
  const page = await context.newPage();
  page.on("console", (message) => message.type() === "error" && !/status of 40[049]/.test(message.text()) && wrong.push(message.text()));
  page.on("pageerror", (error) => wrong.push(String(error)));
  await page.goto(url);
  return page;
};
/** WCAG 2.2 A and AA, as far as a program can tell. It looks from outside the page's own policy, which has no script. */
const accessible = async (page, state) => {
  const copy = await (await browser.newContext({ bypassCSP: true, viewport: page.viewportSize(), locale: "pt-BR" })).newPage();
  await copy.setContent(await page.content());
  await copy.evaluate(AXE);
  const found = await copy.evaluate(() => globalThis.axe.run({ runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] }));
  assert.ok(found.passes.length > 10, "axe looked at the page");
  assert.deepEqual(found.violations.map(({ id, nodes }) => [id, nodes.map((node) => node.html)]), [], state);
  await copy.context().close();
};
/** Nothing is cut: no sideways scrolling, and every element within the window. */
const whole = async (page, state) => {
  const outside = await page.evaluate(() => {
    const width = document.documentElement.clientWidth;
    const beyond = [...document.querySelectorAll("body *")].filter((element) => {
      const box = element.getBoundingClientRect();
      return box.left < 0 || box.right > width + 0.5;
    });
    return document.documentElement.scrollWidth > width ? ["the page scrolls sideways"] : beyond.map((element) => element.outerHTML);
  });
  assert.deepEqual(outside, [], state);
};
const picture = (page, name) => page.screenshot({ path: join(pictures, `${name}.png`), fullPage: true });
const said = (page) => page.getByRole("status").innerText();

try {
  // The offer, value by value.
  let url = await link();
  let page = await open(url);
  assert.equal(await page.title(), "Proposta de empréstimo");
  const rows = await page.locator("dl div").evaluateAll((rows) => rows.map((row) => [row.children[0].textContent, row.children[1].textContent]));
  assert.deepEqual(rows, [
    ["Custo Efetivo Total (CET) ao ano", "57,48% a.a."],
    ["Custo Efetivo Total (CET) ao mês", "3,86% a.m."],
    ["Taxa de juros ao mês", "3,49% a.m."],
    ["Valor solicitado", "R$\u00a05.000,00"],
    ["IOF", "R$\u00a0107,32"],
    ["Valor financiado", "R$\u00a05.107,32"],
    ["Você recebe", "R$\u00a05.000,00"],
    ["Parcelas", "12x de R$\u00a0528,21"],
    ["Primeiro vencimento", "01/01/2027"],
    ["Último vencimento", "01/12/2027"],
    ["Total a pagar, com financiamento", "R$\u00a06.338,52"],
    ["Total, sem financiamento", "R$\u00a05.000,00"],
  ]);
  assert.match(await page.locator("main").innerText(), /Olá, Beltrano \(CPF\s\*\*\*\.456\.789-\*\*\)/);
  const boxes = await page.getByRole("button").evaluateAll((buttons) => buttons.map((button) => {
    const { width, height } = button.getBoundingClientRect();
    const { fontWeight, fontSize, backgroundColor, color } = getComputedStyle(button);
    return { width, height, fontWeight, fontSize, backgroundColor, color };
  }));
  assert.equal(boxes.length, 2);
  assert.deepEqual(boxes[0], boxes[1], "of equal size and weight");
  assert.ok(boxes[0].height >= 44 && boxes[0].width >= 44);
  assert.equal(await page.evaluate(() => document.activeElement.tagName), "BODY", "none is preselected");
  await accessible(page, "offer");
  await picture(page, "offer");

  // Aceitar, back, the other one: the first answer stands. Reloaded and opened again, it is still there.
  await page.getByRole("button", { name: "Aceitar" }).click();
  assert.match(await said(page), /^Você aceitou a proposta em \d\d\/\d\d\/\d{4} às \d\d:\d\d \(horário de Brasília\)\.$/);
  assert.equal(await page.getByRole("button").count(), 0);
  await accessible(page, "accepted");
  await picture(page, "accepted");
  await page.reload();
  assert.match(await said(page), /^Você aceitou/);
  // No page is kept (no-store), so the way back shows what stands; a page that was open before is the next case.
  await page.goBack();
  assert.equal(await page.getByRole("button").count(), 0);
  assert.match(await said(page), /^Você aceitou/);
  assert.equal(await status(url), "ACEITO");
  await page.goto(url);
  assert.match(await said(page), /^Você aceitou/);

  // The other answer to one that stands, from a page that was opened before.
  url = await link();
  const [one, other] = [await open(url), await open(url)];
  await one.getByRole("button", { name: "Recusar" }).click();
  assert.match(await said(one), /^Você recusou/);
  await accessible(one, "refused");
  await picture(one, "refused");
  await other.getByRole("button", { name: "Aceitar" }).click();
  assert.match(await said(other), /^Você recusou/);
  await accessible(other, "conflict");
  await picture(other, "conflict");
  assert.equal(await status(url), "RECUSADO");

  // A double click is one answer.
  url = await link();
  page = await open(url);
  await page.getByRole("button", { name: "Recusar" }).dblclick();
  await page.getByRole("status").waitFor();
  assert.match(await said(page), /^Você recusou/);
  assert.equal(await status(url), "RECUSADO");

  // The keyboard alone: both buttons are reached in their order, and it shows which one has the focus.
  url = await link();
  page = await open(url);
  for (const name of ["Recusar", "Aceitar"]) {
    await page.keyboard.press("Tab");
    const focus = await page.evaluate(() => [document.activeElement.textContent, getComputedStyle(document.activeElement).outlineStyle]);
    assert.deepEqual(focus, [name, "solid"]);
  }
  await page.keyboard.press("Enter");
  await page.getByRole("status").waitFor();
  assert.equal(await status(url), "ACEITO");

  // Nothing is cut on a narrow telephone, nor at twice the size.
  const names = ["Sebastião D'Ávila <b>", "Ana🦆 de Souza", "W".repeat(100), undefined];
  for (const nome of names) {
    for (const fixture of ["02_tipica_12x", "walkthrough"]) {
      url = await link(fixture, nome);
      page = await open(url, 320);
      if (nome) assert.ok((await page.locator("main").innerText()).includes(`Olá, ${nome.split(" ")[0]}`), nome);
      await whole(page, `${nome} at 320 px`);
      await accessible(page, `${nome} at 320 px`);
      if (nome === undefined) await picture(page, `${fixture}-320`);
      await page.context().close();
      for (const width of [360, 640]) {
        page = await open(url, width);
        await page.evaluate(() => document.documentElement.style.setProperty("font-size", "212%"));
        await whole(page, `${nome} at 200 % of ${width} px`);
        await page.context().close();
      }
    }
  }
  page = await open(await link("walkthrough"));
  const absent = await page.locator("dd").evaluateAll((values) => values.filter((value) => value.textContent === "não informado").length);
  assert.ok(absent >= 1, "what the partner did not give is said so");
  await picture(page, "walkthrough");

  // A link that was changed on the way.
  url = await link();
  page = await open(`${url}?acao=talvez`);
  assert.equal(await page.title(), "Pedido não entendido");
  await accessible(page, "error");
  await picture(page, "error");
  assert.equal(await status(url), "AGUARDANDO_RESPOSTA");

  // Nothing behind the link.
  page = await open(`${base}/confirmar/00000000-0000-4000-8000-000000000000`);
  assert.equal(await page.title(), "Proposta não encontrada");
  await accessible(page, "not found");
  await picture(page, "not-found");

  assert.deepEqual(wrong, [], "the browser's console has no faults to tell of");
  console.log("a customer's browser: offer, both answers, conflict, keyboard, 320 px, 200 %, axe");
} finally {
  await browser.close();
  server.kill("SIGTERM");
}
